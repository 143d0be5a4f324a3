export type Part = "subject" | "text" | "html";

/** The invitation without its texts: Liquid, in which `[[name]]` is replaced by the text of that name. */
export const LAYOUT: Record<Part, string> = {
  subject: "[[subject]]\n",

  text: `\
[[greeting]]

[[invitation]]
{% if stay.deadline %}[[deadline]]{% else %}[[overdue]]{% endif %}

[[button]][[colon]]
{{ link }}

[[keepPrivate]]

{{ listing.title }}
[[address]][[colon]] {{ listing.address }}, {{ listing.zipCode }} {{ listing.city }}, {{ listing.country }}
{% if stay.checkIn %}[[checkIn]][[colon]] {{ stay.checkIn }}
{% endif %}{% if stay.checkOut %}[[checkOut]][[colon]] {{ stay.checkOut }}
{% endif %}{% if party.numberOfGuests %}[[guests]][[colon]] {{ party.numberOfGuests }}
{% endif %}{% if stay.checkIn or stay.checkOut %}[[localTimes]]
{% endif %}
--\x20
{% if sender.contact %}[[contact]]
{% endif %}[[why]]
{% if sender.name and sender.name != host.name %}[[sentBy]]
{% endif %}{% if sender.privacyUrl %}[[privacy]] {{ sender.privacyUrl }}
{% endif %}`,

  // Outlook lays out tables only, and ignores max-width: it gets a table of fixed width in a conditional comment. Styles are
  // inline because some clients drop <style>, which has what only the others need: dark colors.
  html: `\
{%- assign text = "margin: 0; font-size: 16px; line-height: 24px; color: #16181b;" -%}
{%- assign muted = "margin: 0; font-size: 14px; line-height: 20px; color: #565e69;" -%}
{%- assign link_style = "color: #1f5fd0; word-break: break-all;" -%}
<!doctype html>
<html lang="{{ language }}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<meta name="format-detection" content="date=no">
<title>[[heading]]</title>
<style>
:root { color-scheme: light dark; supported-color-schemes: light dark; }
@media (prefers-color-scheme: dark) {
  .page { background-color: #16181b !important; }
  .card { background-color: #212429 !important; border-color: #363b42 !important; }
  .text { color: #f1f2f4 !important; }
  .muted { color: #b0b7c0 !important; }
  .link { color: #8ab8ff !important; }
  .line { border-color: #363b42 !important; }
}
</style>
</head>
<body class="page" style="margin: 0; padding: 0; background-color: #f3f4f6;">
<table class="page" role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" style="background-color: #f3f4f6;">
<tr><td align="center" style="padding: 24px 12px;">
<!--[if mso]><table role="presentation" width="560" cellpadding="0" cellspacing="0" border="0"><tr><td><![endif]-->
<table class="card" role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" style="max-width: 560px; background-color: #ffffff; border: 1px solid #dfe2e7; border-radius: 8px; font-family: -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif; text-align: left; word-break: break-word;">
<tr><td style="padding: 24px 24px 8px;">
{%- if sender.name %}
<p class="muted" style="{{ muted }} margin-bottom: 8px;">{{ sender.name }}</p>
{%- endif %}
<h1 class="text" style="{{ text }} font-size: 24px; line-height: 30px; font-weight: 600;">[[heading]]</h1>
<p class="text" style="{{ text }} margin-top: 16px;">[[greeting]]</p>
<p class="text" style="{{ text }} margin-top: 12px;">[[invitation]]</p>
<p class="text" style="{{ text }} margin-top: 12px;">{% if stay.deadline %}[[deadline]]{% else %}[[overdue]]{% endif %}</p>
</td></tr>
<tr><td style="padding: 16px 24px 20px;">
<table role="presentation" cellpadding="0" cellspacing="0" border="0"><tr>
<td align="center" bgcolor="#1f5fd0" style="border-radius: 6px; background-color: #1f5fd0; mso-padding-alt: 14px 28px;">
<a href="{{ link }}" style="display: inline-block; padding: 14px 28px; font-size: 16px; line-height: 20px; font-weight: 600; color: #ffffff; text-decoration: none;">[[button]]</a>
</td></tr></table>
</td></tr>
<tr><td style="padding: 0 24px 20px;">
<p class="muted" style="{{ muted }}">[[link]]<br><a class="link" href="{{ link }}" style="{{ link_style }}">{{ link }}</a><br>[[keepPrivate]]</p>
</td></tr>
<tr><td style="padding: 0 24px 20px;">
<table class="line" role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" style="border-top: 1px solid #dfe2e7;">
<tr><td style="padding-top: 16px;">
<h2 class="text" dir="auto" style="{{ text }} font-weight: 600;">{{ listing.title }}</h2>
</td></tr>
<tr><td style="padding-top: 8px;">
<p class="muted" style="{{ muted }}">[[address]]</p>
<p class="text" dir="auto" style="{{ text }}">{{ listing.address }}, {{ listing.zipCode }} {{ listing.city }}, {{ listing.country }}</p>
</td></tr>
{%- if stay.checkIn %}
<tr><td style="padding-top: 8px;">
<p class="muted" style="{{ muted }}">[[checkIn]]</p>
<p class="text" style="{{ text }}">{{ stay.checkIn }}</p>
</td></tr>
{%- endif %}
{%- if stay.checkOut %}
<tr><td style="padding-top: 8px;">
<p class="muted" style="{{ muted }}">[[checkOut]]</p>
<p class="text" style="{{ text }}">{{ stay.checkOut }}</p>
</td></tr>
{%- endif %}
{%- if party.numberOfGuests %}
<tr><td style="padding-top: 8px;">
<p class="muted" style="{{ muted }}">[[guests]]</p>
<p class="text" style="{{ text }}">{{ party.numberOfGuests }}</p>
</td></tr>
{%- endif %}
{%- if stay.checkIn or stay.checkOut %}
<tr><td style="padding-top: 8px;">
<p class="muted" style="{{ muted }}">[[localTimes]]</p>
</td></tr>
{%- endif %}
</table>
</td></tr>
<tr><td style="padding: 0 24px 24px;">
<table class="line" role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" style="border-top: 1px solid #dfe2e7;">
<tr><td style="padding-top: 16px;">
{%- if sender.contact %}
<p class="text" style="{{ text }} margin-bottom: 12px;">[[contact]]</p>
{%- endif %}
<p class="muted" style="{{ muted }}">[[why]]</p>
{%- if sender.name and sender.name != host.name %}
<p class="muted" style="{{ muted }} margin-top: 8px;">[[sentBy]]</p>
{%- endif %}
{%- if sender.privacyUrl %}
<p class="muted" style="{{ muted }} margin-top: 8px;">[[privacy]]<br><a class="link" href="{{ sender.privacyUrl }}" style="{{ link_style }}">{{ sender.privacyUrl }}</a></p>
{%- endif %}
</td></tr>
</table>
</td></tr>
</table>
<!--[if mso]></td></tr></table><![endif]-->
</td></tr>
</table>
</body>
</html>
`,
};
