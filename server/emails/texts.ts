/** The texts of the invitation in one language: Liquid over the variables, without `<`, `>` and `&`. */
export interface Texts {
  /** At most 29 characters besides the title, which has at most 30, so that clients show all of it. */
  subject: string;
  /** Between a label and its value. */
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
    subject: "Guest form to fill in: {{ listing.shortTitle }}",
    colon: ":",
    heading: "Registration for your stay",
    greeting: "Hello,",
    invitation:
      "Your host{% if host.name %}, {{ host.name }},{% endif %} asks you to fill in the guest registration form for your stay at “{{ listing.title }}”.",
    address: "Address",
    checkIn: "Check-in",
    checkOut: "Check-out",
    guests: "Guests",
    localTimes: "All times are local to the property ({{ stay.timeZone }}).",
    deadline: "Please fill it in before you arrive, by {{ stay.deadline }}.",
    overdue: "Please fill it in as soon as you can.",
    button: "Fill in the form",
    link: "If the button does not work, open this link in your browser:",
    keepPrivate: "This link is for you only: anyone who has it can open your form.",
    why: "You are receiving this automatic message because your email address was given for this stay. If this is not your stay, please ignore this message.",
    sentBy: "Sent by {{ sender.name }} on behalf of your host.",
    contact: "Questions? {{ sender.contact }}",
    privacy: "How your data is protected:",
  },
  de: {
    subject: "Anmeldeformular ausfüllen: {{ listing.shortTitle }}",
    colon: ":",
    heading: "Anmeldung für Ihren Aufenthalt",
    greeting: "Guten Tag,",
    invitation:
      "{% if host.name %}im Namen der Unterkunft „{{ listing.title }}“ bittet Sie {{ host.name }}{% else %}die Unterkunft „{{ listing.title }}“ bittet Sie{% endif %}, das Anmeldeformular für Ihren Aufenthalt auszufüllen.",
    address: "Adresse",
    checkIn: "Anreise",
    checkOut: "Abreise",
    guests: "Gäste",
    localTimes: "Alle Uhrzeiten in Ortszeit der Unterkunft: {{ stay.timeZone }}.",
    deadline: "Bitte füllen Sie es vor Ihrer Anreise aus, bis spätestens {{ stay.deadline }}.",
    overdue: "Bitte füllen Sie es so bald wie möglich aus.",
    button: "Formular ausfüllen",
    link: "Falls der Button nicht funktioniert, öffnen Sie bitte diesen Link in Ihrem Browser:",
    keepPrivate: "Der Link ist nur für Sie bestimmt: Wer ihn hat, kann Ihr Formular öffnen.",
    why: "Sie erhalten diese automatische Nachricht, weil Ihre E-Mail-Adresse für diesen Aufenthalt angegeben wurde. Falls das nicht Ihr Aufenthalt ist, ignorieren Sie diese Nachricht bitte.",
    sentBy: "Gesendet von {{ sender.name }}{% if host.name %} im Auftrag von {{ host.name }}{% endif %}.",
    contact: "Fragen? {{ sender.contact }}",
    privacy: "So werden Ihre Daten geschützt:",
  },
  fr: {
    subject: "Enregistrement à compléter : {{ listing.shortTitle }}",
    colon: " :",
    heading: "Enregistrement pour votre séjour",
    greeting: "Bonjour,",
    invitation:
      "Votre hôte{% if host.name %}, {{ host.name }},{% endif %} vous demande de remplir la fiche d’enregistrement pour votre séjour dans le logement « {{ listing.title }} ».",
    address: "Adresse",
    checkIn: "Arrivée",
    checkOut: "Départ",
    guests: "Voyageurs",
    localTimes: "Les horaires sont indiqués à l’heure locale du logement ({{ stay.timeZone }}).",
    deadline: "Merci de la remplir avant votre arrivée, au plus tard le {{ stay.deadline }}.",
    overdue: "Merci de la remplir dès que possible.",
    button: "Remplir la fiche",
    link: "Si le bouton ne fonctionne pas, ouvrez ce lien dans votre navigateur :",
    keepPrivate: "Ce lien vous est réservé : toute personne qui en dispose peut ouvrir votre fiche.",
    why: "Vous recevez ce message automatique parce que votre adresse e-mail a été indiquée pour ce séjour. Si ce séjour n’est pas le vôtre, veuillez ignorer ce message.",
    sentBy: "Envoyé par {{ sender.name }} pour le compte de votre hôte.",
    contact: "Des questions ? {{ sender.contact }}",
    privacy: "Protection de vos données :",
  },
  es: {
    subject: "Registro por completar: {{ listing.shortTitle }}",
    colon: ":",
    heading: "Registro de viajeros para su estancia",
    greeting: "Hola:",
    invitation:
      "{% if host.name %}En nombre del alojamiento «{{ listing.title }}», {{ host.name }} le pide{% else %}El alojamiento «{{ listing.title }}» le pide{% endif %} que rellene el formulario de registro de viajeros para su estancia.",
    address: "Dirección",
    checkIn: "Entrada",
    checkOut: "Salida",
    guests: "Huéspedes",
    localTimes: "Los horarios se indican en la hora local del alojamiento ({{ stay.timeZone }}).",
    deadline: "Por favor, rellénelo antes de su llegada, a más tardar el {{ stay.deadline }}.",
    overdue: "Por favor, rellénelo lo antes posible.",
    button: "Rellenar el formulario",
    link: "Si el botón no funciona, abra este enlace en su navegador:",
    keepPrivate: "Este enlace es solo para usted: cualquiera que lo tenga puede abrir su formulario.",
    why: "Recibe este mensaje automático porque se indicó su dirección de correo electrónico para esta estancia. Si esta estancia no es suya, ignore este mensaje.",
    sentBy: "Enviado por {{ sender.name }}{% if host.name %} en nombre de {{ host.name }}{% endif %}.",
    contact: "¿Tiene alguna pregunta? {{ sender.contact }}",
    privacy: "Protección de sus datos:",
  },
  it: {
    subject: "Registrazione da completare: {{ listing.shortTitle }}",
    colon: ":",
    heading: "Registrazione per il Suo soggiorno",
    greeting: "Gentile ospite,",
    invitation:
      "il Suo host{% if host.name %}, {{ host.name }},{% endif %} Le chiede di compilare il modulo di registrazione per il Suo soggiorno presso “{{ listing.title }}”.",
    address: "Indirizzo",
    checkIn: "Arrivo",
    checkOut: "Partenza",
    guests: "Ospiti",
    localTimes: "Gli orari si riferiscono all’ora locale dell’alloggio ({{ stay.timeZone }}).",
    deadline: "La preghiamo di compilarlo prima del Suo arrivo, entro {{ stay.deadline }}.",
    overdue: "La preghiamo di compilarlo il prima possibile.",
    button: "Compili il modulo",
    link: "Se il pulsante non funziona, apra questo link nel Suo browser:",
    keepPrivate: "Questo link è riservato a Lei: chiunque ne sia in possesso può aprire il Suo modulo.",
    why: "Riceve questo messaggio automatico perché il Suo indirizzo e-mail è stato indicato per questo soggiorno. Se questo soggiorno non La riguarda, ignori questo messaggio.",
    sentBy: "Inviato da {{ sender.name }} per conto del Suo host.",
    contact: "Ha domande? {{ sender.contact }}",
    privacy: "Protezione dei Suoi dati:",
  },
  pt: {
    subject: "Registo por preencher: {{ listing.shortTitle }}",
    colon: ":",
    heading: "Registo para a sua estadia",
    greeting: "Olá,",
    invitation:
      "{% if host.name %}Em nome do alojamento «{{ listing.title }}», {{ host.name }} pede-lhe{% else %}O alojamento «{{ listing.title }}» pede-lhe{% endif %} que preencha o formulário de registo de hóspedes para a sua estadia.",
    address: "Morada",
    checkIn: "Entrada",
    checkOut: "Saída",
    guests: "Hóspedes",
    localTimes: "As horas indicadas correspondem à hora local do alojamento ({{ stay.timeZone }}).",
    deadline: "Por favor, preencha-o antes da sua chegada, até {{ stay.deadline }}.",
    overdue: "Por favor, preencha-o logo que possível.",
    button: "Preencher o formulário",
    link: "Se o botão não funcionar, abra este link no seu navegador:",
    keepPrivate: "Este link é só para si: qualquer pessoa que o tenha pode abrir o seu formulário.",
    why: "Recebe esta mensagem automática porque o seu endereço de e-mail foi indicado para esta estadia. Se esta estadia não for sua, ignore esta mensagem.",
    sentBy: "Enviado por {{ sender.name }}{% if host.name %} em nome de {{ host.name }}{% endif %}.",
    contact: "Tem dúvidas? {{ sender.contact }}",
    privacy: "Proteção dos seus dados:",
  },
  nl: {
    subject: "Gastregistratie invullen: {{ listing.shortTitle }}",
    colon: ":",
    heading: "Registratie voor uw verblijf",
    greeting: "Beste gast,",
    invitation:
      "Uw verhuurder{% if host.name %}, {{ host.name }},{% endif %} vraagt u om het registratieformulier voor uw verblijf in ‘{{ listing.title }}’ in te vullen.",
    address: "Adres",
    checkIn: "Aankomst",
    checkOut: "Vertrek",
    guests: "Gasten",
    localTimes: "Alle tijden zijn in de plaatselijke tijd van de accommodatie ({{ stay.timeZone }}).",
    deadline: "Vul het alstublieft vóór uw aankomst in, uiterlijk op {{ stay.deadline }}.",
    overdue: "Vul het alstublieft zo snel mogelijk in.",
    button: "Formulier invullen",
    link: "Werkt de knop niet? Open dan deze link in uw browser:",
    keepPrivate: "Deze link is alleen voor u bedoeld: iedereen die hem heeft, kan uw formulier openen.",
    why: "U ontvangt dit automatische bericht omdat uw e-mailadres voor dit verblijf is opgegeven. Is dit niet uw verblijf? Dan kunt u dit bericht negeren.",
    sentBy: "Verzonden door {{ sender.name }} namens uw verhuurder.",
    contact: "Vragen? {{ sender.contact }}",
    privacy: "Zo worden uw gegevens beschermd:",
  },
};
