"""The shapes of the secrets that providers issue: one row for each provider and kind of secret.

Each pattern is a regular expression for RE2. It begins with a prefix that the provider documents, so that nothing else
has that shape. Secrets without a prefix of their own (a bare UUID, 40 hexadecimal digits) are not in the table: only
the name next to them can reveal them, see ``secret_names``.

Sources: the providers' own documentation. If it states no shape, prefix, alphabet and length come from the rules of
public scanners (gitleaks and its successor Betterleaks, Google's Veles, detect-secrets).
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Provider(NamedTuple):
    """A provider, and the pattern that all its secrets of one kind match."""

    name: str
    pattern: str
    has_prefix: bool = True
    """True if every secret holds a literal of three letters, by which RE2 finds it quickly."""


_HEX: Final = "[a-f0-9]"
_URL64: Final = "[A-Za-z0-9_-]"
_UUID: Final = "[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}"

_WITH_PREFIX: Final = (
    # Source code, packages, builds
    ("GitHub", r"gh[pousr]_[A-Za-z0-9]{20,}", r"github_pat_[A-Za-z0-9_]{20,}"),
    (
        "GitLab",
        rf"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|soat|imt|agent|oas|wt|ffct)-{_URL64}{{16,}}(?:\.[a-z0-9.]+)?",
        rf"GR1348941{_URL64}{{20,}}",
    ),
    (
        "Bitbucket",
        r"BBDC-[A-Za-z0-9+/=]{32,}",
        rf"ATCTT3x{_URL64}{{20,}}(?:=[A-F0-9]{{8}})?",
        r"ATBB[A-Za-z0-9]{24}[A-F0-9]{8}",
    ),
    ("npm", r"npm_[A-Za-z0-9]{30,}"),
    ("PyPI", rf"pypi-AgE[A-Za-z0-9]{_URL64}{{16,}}"),
    ("RubyGems", rf"rubygems_{_HEX}{{40,}}"),
    ("crates.io", r"cio[A-Za-z0-9]{32}\b"),
    ("Clojars", r"CLOJARS_[A-Za-z0-9]{60}"),
    ("NuGet", r"oy2[a-z0-9]{43}"),
    ("JFrog", r"AKCp[A-Za-z0-9]{60,}", r"cmVmdGtu[A-Za-z0-9]{50,}"),
    ("Docker Hub", rf"dckr_(?:pat|oat)_{_URL64}{{20,}}"),
    ("CircleCI", r"CCI(?:PAT|PRJ)_[A-Za-z0-9]{20,}_[a-z0-9]{40}"),
    ("Buildkite", r"bk(?:ua|aat|rt|aa|aj|ar|ct|pt|pat|ps)_[A-Za-z0-9_-]{30,}"),
    ("SonarQube", rf"sq[upa]_{_HEX}{{40}}"),
    ("Sourcegraph", rf"sgp_(?:{_HEX}{{16}}_|local_)?{_HEX}{{40}}"),
    ("Codecov and Sentry", r"sntry[su]_(?:eyJ)?[A-Za-z0-9+/=_-]{30,}"),
    # Clouds
    ("AWS", r"ABSK[A-Za-z0-9+/]{80,}={0,2}"),
    (
        "Google",
        rf"AIza{_URL64}{{30,}}",
        rf"ya29\.{_URL64}{{20,}}",
        rf"GOCSPX-{_URL64}{{20,}}",
        rf"1//0{_URL64}{{30,}}",
        rf"AQ\.Ab{_URL64}{{30,}}",
    ),
    (
        "Azure",
        r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}",
        r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}",
        r"[A-Za-z0-9+/_-]{42,52}A(?:zFu|zSe|STU|RmB|CDb|IoT|PIM)[A-Za-z0-9+/_-]{5,28}={0,2}",
        r"[A-Za-z0-9+/]{40,90}\+A(?:CR|St|MC)[A-Za-z0-9+/]{5,}={0,2}",
    ),
    ("Alibaba Cloud", r"LTAI[A-Za-z0-9]{16,20}", r"STS\.[A-Za-z0-9]{16,64}", r"CAIS[A-Za-z0-9+/_=-]{60,}"),
    ("Tencent Cloud", r"AKID[A-Za-z0-9]{32}"),
    ("Yandex Cloud", rf"AQVN{_URL64}{{35,38}}", rf"t1\.[A-Z0-9a-z_-]+={{0,2}}\.{_URL64}{{86}}={{0,2}}"),
    ("DigitalOcean", rf"do[opr]_v1_{_HEX}{{32,}}"),
    ("Cloudflare", rf"v1\.0-{_HEX}{{24}}-{_HEX}{{146}}", r"cf(?:k|ut|at)_[A-Za-z0-9]{40,}"),
    ("Heroku", rf"HRKU-{_URL64}{{30,}}"),
    ("Fly.io", r"fo1_[A-Za-z0-9_-]{40,}", r"(?:FlyV1 )?fm[12][ar]?_[A-Za-z0-9+/=,_-]{60,}"),
    ("Vercel", r"vc[pairk]_[A-Za-z0-9_-]{24,}", r"vercel_blob_rw_[A-Za-z0-9_]{20,}"),
    ("Netlify", rf"nf[pcubo]_{_URL64}{{36,}}"),
    ("Render", r"rnd_[A-Za-z0-9]{28,}"),
    ("Scalingo", rf"tk-us-{_URL64}{{48}}"),
    ("Supabase", r"sbp_(?:oauth_|v0_)?[a-z0-9_-]{40}", rf"sb_secret_{_URL64}{{20,}}"),
    ("PlanetScale", r"pscale_(?:tkn|pw|oauth|app_secret)_[A-Za-z0-9_=.-]{32,}"),
    ("Neon", r"napi_[a-z0-9]{40,}"),
    ("Databricks", rf"dapi{_HEX}{{32}}(?:-[0-9])?", rf"dose{_HEX}{{32}}"),
    ("HashiCorp", rf"hv[sbr]\.{_URL64}{{20,}}", rf"[A-Za-z0-9]{{14}}\.atlasv1\.{_URL64}{{60,}}"),
    ("Pulumi", rf"pul-{_HEX}{{40}}"),
    ("Doppler", r"dp\.(?:pt|st|ct|scim|audit|sa|said)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    ("Infisical", rf"st\.{_HEX}{{24}}\.{_HEX}{{32}}\.{_HEX}{{32}}"),
    (
        "1Password",
        r"ops_eyJ[A-Za-z0-9+/_-]{100,}={0,2}",
        r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}",
    ),
    ("age", r"AGE-SECRET-KEY-1[0-9A-Z]{20,}", r"AGE-PLUGIN-[A-Z0-9-]+1[0-9A-Z]{20,}"),
    ("Tailscale", rf"tskey-(?:[a-z]+-)?{_URL64}{{20,}}"),
    ("Defined Networking", r"dnkey-[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}"),
    ("OpenShift", rf"sha256~{_URL64}{{43}}"),
    ("Harness", rf"(?:pat|sat)\.{_URL64}{{22}}\.{_HEX}{{24}}\.[A-Za-z0-9]{{20}}"),
    # Models
    ("OpenAI", rf"sk-(?:proj|svcacct|admin|None|service)-{_URL64}{{16,}}", r"sess-[A-Za-z0-9]{40}"),
    ("Anthropic", rf"sk-ant-[a-z0-9]+-{_URL64}{{16,}}"),
    ("OpenRouter", rf"sk-or-v1-{_HEX}{{40,}}"),
    ("Hugging Face", r"hf_[A-Za-z0-9]{20,}", r"api_org_[A-Za-z0-9]{34}"),
    ("xAI", rf"xai-{_URL64}{{40,}}"),
    ("Groq", r"gsk_[A-Za-z0-9]{20,}"),
    ("Perplexity", r"pplx-[A-Za-z0-9]{40,}"),
    ("Replicate", r"r8_[A-Za-z0-9]{37}"),
    ("LangSmith", r"lsv2_(?:pt|sk)_[a-fA-F0-9]{32}_[a-fA-F0-9]{10}", rf"ls__{_HEX}{{32}}"),
    ("Langfuse", rf"sk-lf-{_UUID}"),
    ("NVIDIA", rf"nvapi-{_URL64}{{60,}}"),
    ("Pinecone", r"pcsk_[A-Za-z0-9_]{40,}"),
    ("Tavily", rf"tvly-(?:dev-|prod-)?{_URL64}{{20,}}"),
    ("Firecrawl", rf"fc-{_HEX}{{32}}"),
    ("Jina", rf"jina_{_HEX}{{32}}{_URL64}{{28}}"),
    ("Fireworks", r"fw_[A-Za-z0-9]{22,24}\b"),
    ("Voyage", rf"(?:pa|al)-{_URL64}{{43}}\b"),
    ("E2B and ElevenLabs", rf"e2b_{_HEX}{{40}}", rf"sk_{_HEX}{{48}}\b"),
    ("Cohere and Mistral gateways", rf"tgp_v1_{_URL64}{{40,}}"),
    # Messages
    ("Slack", r"xox[abceoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}", r"xapp-[A-Za-z0-9-]{10,}"),
    ("Discord", rf"mfa\.{_URL64}{{84}}"),
    ("SendGrid", rf"SG\.{_URL64}{{16,}}\.{_URL64}{{16,}}"),
    ("Mailgun", rf"key-{_HEX}{{32}}", rf"pubkey-{_HEX}{{32}}"),
    ("Mailchimp", rf"{_HEX}{{32}}-us[0-9]{{1,2}}\b", rf"md-{_URL64}{{22}}\b"),
    ("Brevo", r"xkeysib-[a-fA-F0-9]{64}-[A-Za-z0-9]{16}", rf"xsmtpsib-{_HEX}{{64}}-[A-Za-z0-9]{{16}}"),
    ("Resend", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}"),
    ("Firebase messaging", rf"AAAA{_URL64}{{7}}:{_URL64}{{140}}"),
    # Payments and shops
    (
        "Stripe",
        r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}",
        r"(?:whsec|mk_live)_[A-Za-z0-9+/]{16,}={0,2}",
        r"(?:pi|seti|cs)_[A-Za-z0-9]{14,40}_secret_[A-Za-z0-9]{16,}",
    ),
    ("Square", rf"sq0[a-z]{{3}}-{_URL64}{{22,43}}", rf"EAAA{_URL64}{{56,60}}"),
    ("Shopify", r"shp(?:at|ss|ca|pa|tka|ua)_[A-Fa-f0-9]{32}"),
    ("Razorpay", r"rzp_(?:live|test)_[A-Za-z0-9]{14,}"),
    ("Plaid", rf"(?:access|public|link)-(?:sandbox|development|production)-{_UUID}"),
    ("PayPal Braintree", rf"access_token\$(?:production|sandbox)\$[0-9a-z]{{16}}\${_HEX}{{32}}"),
    ("Flutterwave", r"FLW(?:PUBK|SECK)(?:_TEST)?-[a-zA-Z0-9]{12,}(?:-X)?"),
    ("Adyen", r"AQE[a-z][a-z][A-Za-z0-9+/=-]{60,}"),
    ("EasyPost", r"EZ[AT]K[A-Za-z0-9]{54}"),
    ("Lob", rf"(?:live|test)_(?:pub_)?{_HEX}{{31,35}}\b"),
    ("Shippo", rf"shippo_(?:live|test)_{_HEX}{{40}}"),
    ("Duffel", rf"duffel_(?:test|live)_{_URL64}{{43}}"),
    # Work
    ("Atlassian", r"ATATT?[0-9]?x?[A-Za-z0-9=_-]{100,}", rf"ATATT3x{_URL64}{{20,}}(?:=[A-F0-9]{{8}})?"),
    ("Linear", r"lin_(?:api|oauth|wh)_[A-Za-z0-9]{32,}"),
    ("Notion", r"ntn_[A-Za-z0-9]{40,}", r"secret_[A-Za-z0-9]{43}\b"),
    ("ClickUp", r"pk_[0-9]{6,9}_[A-Z0-9]{32}"),
    ("Airtable", rf"pat[A-Za-z0-9]{{14}}\.{_HEX}{{64}}"),
    ("Figma", rf"fig[dou]r?_{_URL64}{{36,}}"),
    ("Typeform", rf"tfp_{_URL64}{{40,}}"),
    ("Dropbox", rf"sl\.(?:[a-z]\.)?{_URL64}{{100,}}"),
    ("HubSpot", rf"pat-(?:na|eu|ap)[0-9]-{_UUID}"),
    ("Intercom and Contentful", rf"CFPAT-{_URL64}{{43}}"),
    ("Postman", r"PMA[KT]-[a-fA-F0-9]{24}-[a-fA-F0-9]{34}", r"PMAT-[A-Za-z0-9]{26}"),
    ("ReadMe", r"rdme_[a-z0-9]{70}"),
    ("Prefect", r"pn[ub]_[A-Za-z0-9]{36}"),
    ("Mapbox", rf"[sp]k\.eyJ{_URL64}{{20,}}\.{_URL64}{{16,}}"),
    ("Facebook", r"EAA[A-Za-z][A-Za-z0-9]{60,}"),
    ("Algolia and Adafruit", r"aio_[A-Za-z0-9]{28}"),
    ("Intercom", r"dG9rOj[A-Za-z0-9+/]{40,}={0,2}"),
    ("X", r"A{20,22}[A-Za-z0-9%]{40,}"),
    # Watching
    (
        "Grafana",
        r"glc_[A-Za-z0-9+/_-]{32,}={0,2}",
        r"glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}",
        r"eyJrIjoi[A-Za-z0-9+/_-]{40,}={0,2}",
    ),
    ("New Relic", rf"NR(?:AK|II|RA|JS|SP|AL)-{_URL64}{{19,}}", rf"{_HEX}{{36}}NRAL"),
    ("Dynatrace", r"dt0[a-z][0-9]{2}\.[A-Za-z0-9]{8,24}\.[A-Za-z0-9]{64}"),
    ("PostHog", r"ph[xsrc]_[A-Za-z0-9_-]{40,}"),
    ("Honeycomb", r"hc[abx](?:ik|lk|mk)_[a-z0-9]{26,58}"),
    ("Axiom", rf"xa[ap]t-{_UUID}"),
    # Others
    ("Aiven", rf"AVNS_{_URL64}{{16,}}"),
    ("Adobe", r"p8e-[A-Za-z0-9]{32}"),
    ("Apify", r"apify_api_[A-Za-z0-9-]{30,}"),
    ("Asaas", rf"\$?aact_(?:prod|hmlg)_{_URL64}{{20,}}"),
    (
        "Authress",
        r"(?:sc|ext|scauth|authress)_[a-zA-Z0-9]{5,30}\.[a-zA-Z0-9]{4,6}\.acc[_-][a-zA-Z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,}",
    ),
    ("Brave", rf"BSA{_URL64}{{24,40}}"),
    ("Canada Notify", rf"gcntfy-[a-z0-9_]+-{_UUID}-{_UUID}"),
    ("Canva", rf"cnvca{_URL64}{{51}}"),
    ("Cerebras", r"csk-[a-z0-9]{48}"),
    ("ClickHouse", r"4b1d[A-Za-z0-9]{38}"),
    ("CockroachDB", r"CCDB1_[A-Za-z0-9]{22}_[A-Za-z0-9]{40}"),
    ("ConfigCat", rf"configcat-sdk-1/{_URL64}{{22}}/{_URL64}{{22}}"),
    ("DataStax", r"AstraCS:[A-Za-z0-9]{20,}(?::[a-f0-9]{32,})?"),
    ("Deno", r"dd[pow]_[A-Za-z0-9]{36}"),
    ("DevCycle", r"dvc_(?:server|client|mobile)_[A-Za-z0-9_]{8,}"),
    ("Devin", r"apk_(?:user_)?[A-Za-z0-9+/]{80,}={0,2}"),
    ("Docker Swarm", r"SWM(?:TKN-1-[a-z0-9]{50}-[a-z0-9]{25}|KEY-1-[A-Za-z0-9+/]{40,})"),
    ("eBay", r"(?:PRD|SBX)-[a-f0-9]{12}(?:-[a-f0-9]{4}){4}", rf"(?:PRD|SBX)-{_HEX}{{8,12}}-{_HEX}{{8,12}}"),
    ("Elastic", rf"essu_{_URL64}{{40,}}={{0,2}}"),
    ("Exoscale", r"EXO[a-zA-Z0-9]{24,30}"),
    ("Frame.io", rf"fio-u-{_URL64}{{60,}}"),
    ("42", rf"[us]-s4t2(?:ud|af)-{_HEX}{{64}}"),
    ("Lark", r"cli_[A-Za-z0-9]{16}\b"),
    ("Lichess", r"lip_[A-Za-z0-9_]{16,}"),
    ("MailerSend", r"mlsn\.[A-Za-z0-9]{30,}"),
    ("MaxMind", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),
    ("Mercury", r"mercury_(?:production|sandbox)_[a-z]{3,6}_[A-Za-z0-9]{40,}"),
    ("Miro", rf"eyJtaXJv{_URL64}{{30,}}"),
    ("MongoDB Atlas", rf"mdb_sa_sk_{_URL64}{{30,}}"),
    ("Nostr", r"nsec1[a-z0-9]{58}"),
    ("Octopus", r"API-[A-Z0-9]{25,32}\b"),
    ("OneSignal", r"os_v2_(?:app|org)_[a-z2-7]{100,}"),
    (
        "Onfido",
        rf"api_(?:live|sandbox)(?:_(?:ca|us|eu))?\.{_URL64}{{11}}\.{_URL64}{{32}}",
        rf"api_(?:live|sandbox)(?:_(?:ca|us|eu))?\.{_URL64}{{20,}}",
    ),
    ("Packagist", rf"packagist_(?:ort|out|acs|ack|uut)_{_HEX}{{28,}}"),
    ("Persona", rf"persona_(?:production|sandbox)_{_URL64}{{20,}}"),
    ("Pinterest", rf"pin[ar]_{_URL64}{{20,}}"),
    ("Polar", rf"polar_(?:at|oat|rt|pat|whs|cst)_{_URL64}{{20,}}"),
    ("Proof", rf"prf_(?:cli_)?{_URL64}{{20,}}"),
    ("PuTTY", r"PuTTY-User-Key-File-[23]:[^\x00]*?Private-Lines: [0-9]{1,4}\r?\n(?:[A-Za-z0-9+/=]+\r?\n?)+"),
    ("Rootly", rf"rootly_{_HEX}{{64}}"),
    ("Salesforce", r"5Aep861[A-Za-z0-9._-]{60,}", r"3MVG9[A-Za-z0-9._]{60,}"),
    ("Scaleway", r"SCW[A-Z0-9]{17}\b"),
    ("SettleMint", r"sm_[aps]at_[a-zA-Z0-9]{16,}"),
    ("Slack sessions", r"xoxd-[A-Za-z0-9%+/=_-]{60,}"),
    ("StackHawk", rf"hawk\.{_URL64}{{20}}\.{_URL64}{{20}}"),
    ("Tableau", r"[A-Za-z0-9+/]{22}==:[A-Za-z0-9]{32}"),
    ("Thunderstore", rf"tss_{_URL64}{{20,}}"),
    ("UpCloud", r"ucat_[0-9A-Za-z]{24,}"),
    ("Val Town", rf"vtwn_{_URL64}{{20,}}"),
    ("Weights and Biases", r"wandb_v1_[A-Za-z0-9_]{60,}"),
    ("Workato", rf"wrka[a-z]{{0,2}}-eyJ{_URL64}{{8,}}\.{_URL64}{{16,}}\.{_URL64}{{40,}}"),
    ("Zoho", rf"100[0-9]\.{_HEX}{{32}}\.{_HEX}{{32}}"),
    ("Zuplo", rf"zpka_[a-z0-9]{{32}}_{_HEX}{{8}}"),
    (
        "keys in base64",
        r"LS0tLS1CRUdJTi(?:BSU0Eg|BQUklWQVRF|BFQyBQ|BFQy|BPUEVOU1NI|BFTkNSWVBU|BEU0Eg|BQR1AgUFJJV)[A-Za-z0-9+/=]{40,}",
    ),
    ("tokens in base64", r"ZXlKaGJHY2lPaU[A-Za-z0-9+/=_-]{40,}"),
    ("Callosum", rf"cal_[A-Za-z0-9][A-Za-z0-9._-]{{0,63}}_{_URL64}{{43}}"),
    ("JSON web tokens", rf"eyJ{_URL64}{{8,}}\.{_URL64}{{8,}}(?:\.{_URL64}*)*"),
)
_WITHOUT_PREFIX: Final = (
    ("AWS", r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}"),
    ("Yandex Cloud", r"YC[A-Za-z0-9_-]{38}\b"),
    ("HashiCorp", r"\bs\.[A-Za-z0-9]{24}\b"),
    ("Telegram", rf"(?:bot)?[0-9]{{8,10}}:{_URL64}{{35}}"),
    ("Discord", rf"[MNO][A-Za-z0-9_-]{{23,27}}\.{_URL64}{{6}}\.{_URL64}{{27,38}}"),
    ("Mailgun", rf"{_HEX}{{32}}-{_HEX}{{8}}-{_HEX}{{8}}"),
    ("Twilio", r"SK[a-fA-F0-9]{32}\b"),
    ("Asana", r"[0-9]/[0-9]{15,17}(?:/[0-9]{15,17})?:[A-Za-z0-9]{32}"),
    ("Facebook apps", rf"[0-9]{{15,16}}\|{_URL64}{{27,40}}"),
    ("Salesforce", r"00[A-Za-z0-9]{13}![A-Za-z0-9._-]{80,}"),
    ("Z.ai", r"[A-Fa-f0-9]{32}\.[0-9A-Za-z]{16}\b"),
)

PROVIDERS: Final = tuple(
    Provider(name, pattern, has_prefix)
    for rows, has_prefix in ((_WITH_PREFIX, True), (_WITHOUT_PREFIX, False))
    for name, *patterns in rows
    for pattern in patterns
)

WEBHOOKS: Final = (
    r"hooks\.slack\.com/(?:services|workflows|triggers)/(?:[A-Z0-9]{1,16}/)*",
    r"/api/(?:v[0-9]+/)?webhooks?/(?:[0-9]+/)?",
    r"\.webhook\.office\.com/webhookb2/[a-f0-9@-]+/IncomingWebhook/",
    r"hooks\.zapier\.com/hooks/catch/[0-9]+/",
    r"maker\.ifttt\.com/trigger/[^/\s]{1,64}/(?:json/)?with/key/",
    r"hook\.(?:[a-z0-9]+\.)?(?:make|integromat)\.com/",
    r"hooks\.airtable\.com/workflows/v1/genericWebhook/(?:[A-Za-z0-9]+/)*",
    r"events\.pagerduty\.com/integration/",
    r"thingsboard\.cloud/api/v1/",
    r"(?:hc-ping\.com|webhook\.site)/",
    r"discord(?:app)?\.com/api/interactions/[0-9]+/",
)
"""Beginnings of addresses whose rest is a secret: anyone who knows the address may post there."""
