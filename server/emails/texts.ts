/** The texts of the invitation in one language: Liquid over the variables, without `<`, `>` and `&`. */
export interface Texts {
  /** At most 29 characters besides the title, which has at most 30, so that clients show all of it. */
  subject: string;
  /** Behind a label. */
  colon: string;
  heading: string;
  greeting: string;
  invitation: string;
  address: string;
  checkIn: string;
  checkOut: string;
  guests: string;
  localTimes: string;
  deadline: string;
  /** If the check-in has passed. */
  overdue: string;
  button: string;
  /** In front of the link. */
  link: string;
  keepPrivate: string;
  /** Why the guest gets the email. */
  why: string;
  sentBy: string;
  contact: string;
  privacy: string;
}

/** The languages that need no templates of the operator. */
export const TEXTS: Record<string, Texts> = {
  en: {
    subject: "Please register for {{ listing.shortTitle }}",
    colon: ":",
    heading: "Register for your stay",
    greeting: "Hello,",
    invitation:
      "{% if host.name %}{{ host.name }}{% else %}Your host{% endif %} asks you to fill in the registration form for your stay at {{ listing.title }}.",
    address: "Address",
    checkIn: "Check-in",
    checkOut: "Check-out",
    guests: "Guests",
    localTimes: "Times are local times at the property ({{ stay.timeZone }}).",
    deadline: "Please fill it in before you arrive, by {{ stay.deadline }}.",
    overdue: "Please fill it in as soon as you can.",
    button: "Fill in the form",
    link: "If the button does not work, open this link in your browser:",
    keepPrivate: "The link is meant for you only: anyone who has it can open your form.",
    why: "You receive this email because your address was given for this stay. It is sent automatically.",
    sentBy: "Sent by {{ sender.name }} on behalf of your host.",
    contact: "Questions? {{ sender.contact }}",
    privacy: "How your data is protected:",
  },
  de: {
    subject: "Bitte registrieren: {{ listing.shortTitle }}",
    colon: ":",
    heading: "Registrierung für Ihren Aufenthalt",
    greeting: "Guten Tag,",
    invitation:
      "{% if host.name %}{{ host.name }}{% else %}Ihr Gastgeber{% endif %} bittet Sie, das Anmeldeformular für Ihren Aufenthalt auszufüllen: {{ listing.title }}.",
    address: "Adresse",
    checkIn: "Anreise",
    checkOut: "Abreise",
    guests: "Gäste",
    localTimes: "Alle Zeiten sind Ortszeiten der Unterkunft ({{ stay.timeZone }}).",
    deadline: "Bitte füllen Sie es vor Ihrer Anreise aus, spätestens am {{ stay.deadline }}.",
    overdue: "Bitte füllen Sie es so bald wie möglich aus.",
    button: "Formular ausfüllen",
    link: "Falls die Schaltfläche nicht funktioniert, öffnen Sie diesen Link in Ihrem Browser:",
    keepPrivate: "Der Link ist nur für Sie bestimmt: Wer ihn hat, kann Ihr Formular öffnen.",
    why: "Sie erhalten diese E-Mail, weil Ihre Adresse für diesen Aufenthalt angegeben wurde. Sie wird automatisch versendet.",
    sentBy: "Gesendet von {{ sender.name }} im Auftrag Ihres Gastgebers.",
    contact: "Fragen? {{ sender.contact }}",
    privacy: "So werden Ihre Daten geschützt:",
  },
  fr: {
    subject: "Votre enregistrement : {{ listing.shortTitle }}",
    colon: " :",
    heading: "Enregistrez-vous pour votre séjour",
    greeting: "Bonjour,",
    invitation:
      "{% if host.name %}{{ host.name }}{% else %}Votre hôte{% endif %} vous invite à remplir la fiche d’enregistrement de votre séjour : {{ listing.title }}.",
    address: "Adresse",
    checkIn: "Arrivée",
    checkOut: "Départ",
    guests: "Voyageurs",
    localTimes: "Les heures indiquées sont celles du logement ({{ stay.timeZone }}).",
    deadline: "Merci de la remplir avant votre arrivée, au plus tard le {{ stay.deadline }}.",
    overdue: "Merci de la remplir dès que possible.",
    button: "Remplir la fiche",
    link: "Si le bouton ne fonctionne pas, ouvrez ce lien dans votre navigateur :",
    keepPrivate: "Ce lien vous est réservé : toute personne qui le possède peut ouvrir votre fiche.",
    why: "Vous recevez cet e-mail parce que votre adresse a été indiquée pour ce séjour. Il est envoyé automatiquement.",
    sentBy: "Envoyé par {{ sender.name }} pour le compte de votre hôte.",
    contact: "Des questions ? {{ sender.contact }}",
    privacy: "Protection de vos données :",
  },
  es: {
    subject: "Su registro: {{ listing.shortTitle }}",
    colon: ":",
    heading: "Regístrese para su estancia",
    greeting: "Hola:",
    invitation:
      "{% if host.name %}{{ host.name }}{% else %}Su anfitrión{% endif %} le pide que rellene el formulario de registro de su estancia: {{ listing.title }}.",
    address: "Dirección",
    checkIn: "Entrada",
    checkOut: "Salida",
    guests: "Huéspedes",
    localTimes: "Las horas son las locales del alojamiento ({{ stay.timeZone }}).",
    deadline: "Rellénelo antes de su llegada, a más tardar el {{ stay.deadline }}.",
    overdue: "Rellénelo lo antes posible, por favor.",
    button: "Rellenar el formulario",
    link: "Si el botón no funciona, abra este enlace en su navegador:",
    keepPrivate: "El enlace es solo para usted: quien lo tenga puede abrir su formulario.",
    why: "Recibe este correo porque se indicó su dirección para esta estancia. Se envía automáticamente.",
    sentBy: "Enviado por {{ sender.name }} en nombre de su anfitrión.",
    contact: "¿Tiene preguntas? {{ sender.contact }}",
    privacy: "Cómo se protegen sus datos:",
  },
  it: {
    subject: "La Sua registrazione: {{ listing.shortTitle }}",
    colon: ":",
    heading: "Si registri per il Suo soggiorno",
    greeting: "Buongiorno,",
    invitation:
      "{% if host.name %}{{ host.name }}{% else %}il Suo host{% endif %} La invita a compilare il modulo di registrazione per il Suo soggiorno: {{ listing.title }}.",
    address: "Indirizzo",
    checkIn: "Arrivo",
    checkOut: "Partenza",
    guests: "Ospiti",
    localTimes: "Gli orari sono quelli locali dell’alloggio ({{ stay.timeZone }}).",
    deadline: "Lo compili prima del Suo arrivo, entro {{ stay.deadline }}.",
    overdue: "Lo compili appena possibile.",
    button: "Compila il modulo",
    link: "Se il pulsante non funziona, apra questo link nel Suo browser:",
    keepPrivate: "Il link è riservato a Lei: chiunque lo possieda può aprire il Suo modulo.",
    why: "Riceve questa e-mail perché il Suo indirizzo è stato indicato per questo soggiorno. È un messaggio automatico.",
    sentBy: "Inviato da {{ sender.name }} per conto del Suo host.",
    contact: "Domande? {{ sender.contact }}",
    privacy: "Come sono protetti i Suoi dati:",
  },
  pt: {
    subject: "O seu registo: {{ listing.shortTitle }}",
    colon: ":",
    heading: "Registe-se para a sua estadia",
    greeting: "Olá,",
    invitation:
      "{% if host.name %}{{ host.name }}{% else %}O seu anfitrião{% endif %} pede-lhe que preencha o formulário de registo da sua estadia: {{ listing.title }}.",
    address: "Morada",
    checkIn: "Entrada",
    checkOut: "Saída",
    guests: "Hóspedes",
    localTimes: "As horas indicadas são as locais do alojamento ({{ stay.timeZone }}).",
    deadline: "Preencha-o antes da sua chegada, até {{ stay.deadline }}.",
    overdue: "Preencha-o assim que possível.",
    button: "Preencher o formulário",
    link: "Se o botão não funcionar, abra esta ligação no seu navegador:",
    keepPrivate: "A ligação é só para si: quem a tiver pode abrir o seu formulário.",
    why: "Recebe este e-mail porque o seu endereço foi indicado para esta estadia. É uma mensagem automática.",
    sentBy: "Enviado por {{ sender.name }} em nome do seu anfitrião.",
    contact: "Tem perguntas? {{ sender.contact }}",
    privacy: "Como os seus dados são protegidos:",
  },
  nl: {
    subject: "Uw registratie: {{ listing.shortTitle }}",
    colon: ":",
    heading: "Registreer u voor uw verblijf",
    greeting: "Goedendag,",
    invitation:
      "{% if host.name %}{{ host.name }}{% else %}Uw gastheer{% endif %} vraagt u het registratieformulier voor uw verblijf in te vullen: {{ listing.title }}.",
    address: "Adres",
    checkIn: "Aankomst",
    checkOut: "Vertrek",
    guests: "Gasten",
    localTimes: "Alle tijden zijn plaatselijke tijden van de accommodatie ({{ stay.timeZone }}).",
    deadline: "Vul het in vóór uw aankomst, uiterlijk op {{ stay.deadline }}.",
    overdue: "Vul het zo snel mogelijk in.",
    button: "Formulier invullen",
    link: "Werkt de knop niet? Open dan deze link in uw browser:",
    keepPrivate: "De link is alleen voor u bedoeld: wie hem heeft, kan uw formulier openen.",
    why: "U ontvangt deze e-mail omdat uw adres voor dit verblijf is opgegeven. Hij is automatisch verstuurd.",
    sentBy: "Verzonden door {{ sender.name }} namens uw gastheer of gastvrouw.",
    contact: "Vragen? {{ sender.contact }}",
    privacy: "Zo worden uw gegevens beschermd:",
  },
};
