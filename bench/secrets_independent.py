"""Made-up credentials for measuring the redactor, written from the providers' documentation.

The author of this file had not seen the redactor's patterns. Every value is random and is made at run
time from a seed, so the file itself contains no credential. The formats are those of 2024 to 2026.

A template is text with placeholders: `[[m36]]` is 36 random characters of the alphabet `m` and belongs to
the secret; `[[?m12]]` is random too, but an identifier rather than a secret; `[[P]]` is a password and
`[[Q]]` a password that needs no quoting in a URL. `ALPHABETS` lists the alphabets.
"""

import base64
import hashlib
import json
import random
import re
import string
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
ALPHABETS = {
    "x": DIGITS + "abcdef",
    "X": DIGITS + "ABCDEF",
    "n": DIGITS,
    "a": LOWER + DIGITS,
    "A": UPPER + DIGITS,
    "m": LOWER + UPPER + DIGITS,
    "u": LOWER + UPPER + DIGITS + "-_",
    "b": LOWER + UPPER + DIGITS + "+/",
    "B": UPPER + "234567",
    "z": "qpzry9x8gf2tvdw0s3jn54khce6mua7l".upper(),
}

# ruff: noqa: E501  (a template is one line, as it occurs)
# Credentials that are recognisable by their own shape, wherever they are.
SHAPED = {
    # Cloud
    "AWS access key id": "AKIA[[B16]]",
    "AWS temporary access key id": "ASIA[[B16]]",
    "AWS session token": "IQoJb3JpZ2luX2Vj[[b320]]==",
    "Amazon Bedrock API key": "ABSK[[b124]]",
    "Google API key": "AIza[[u35]]",
    "Google OAuth client secret": "GOCSPX-[[u28]]",
    "Google OAuth access token": "ya29.[[u180]]",
    "Google OAuth refresh token": "1//0[[u98]]",
    "Entra client secret": "[[m3]]8Q~[[u34]]",
    "Azure storage account key": "[[b76]]+ASt[[b6]]==",
    "Azure DevOps token": "[[m76]]AZDO[[m4]]",
    "Azure container registry key": "[[b42]]+ACR[[b6]]",
    "Alibaba access key id": "LTAI[[m20]]",
    "DigitalOcean access token": "dop_v1_[[x64]]",
    "DigitalOcean refresh token": "dor_v1_[[x64]]",
    "Cloudflare user token": "cfut_[[m40]][[x8]]",
    "Cloudflare origin CA key": "v1.0-[[x24]]-[[x146]]",
    "Fly access token": "FlyV1 fm2_[[b240]]",
    "Heroku API key": "HRKU-AA[[u58]]",
    "Vercel token": "vcp_[[m56]]",
    "Netlify token": "nfp_[[m36]]",
    "Render API key": "rnd_[[m28]]",
    "Scaleway access key": "SCW[[A17]]",
    "Deno Deploy token": "ddp_[[m36]]",
    "Tailscale auth key": "tskey-auth-[[m17]]CNTRL-[[m32]]",
    "ngrok authtoken": "2[[m26]]_[[m20]]",
    # Databases
    "Supabase access token": "sbp_[[x40]]",
    "Supabase secret key": "sb_secret_[[u31]]",
    "PlanetScale token": "pscale_tkn_[[u43]]",
    "PlanetScale password": "pscale_pw_[[u43]]",
    "Neon API key": "napi_[[a64]]",
    "MongoDB Atlas service account secret": "mdb_sa_sk_[[u40]]",
    "CockroachDB API key": "CCDB1_[[m22]]_[[m40]]",
    "Databricks token": "dapi[[x32]]",
    "Aiven service password": "AVNS_[[u19]]",
    "Pinecone API key": "pcsk_[[m6]]_[[m63]]",
    # Code hosting and continuous integration
    "GitHub classic token": "ghp_[[m36]]",
    "GitHub OAuth token": "gho_[[m36]]",
    "GitHub app token": "ghs_[[m36]]",
    "GitHub fine-grained token": "github_pat_[[m22]]_[[m59]]",
    "GitLab personal token": "glpat-[[u20]]",
    "GitLab routable token": "glpat-[[u27]].01.[[a9]]",
    "GitLab deploy token": "gldt-[[u20]]",
    "GitLab runner token": "glrt-[[u20]]",
    "GitLab job token": "glcbt-64_[[u20]]",
    "GitLab trigger token": "glptt-[[x40]]",
    "Bitbucket app password": "ATBB[[m24]][[X8]]",
    "Bitbucket repository token": "ATCTT3xFfGN0[[u171]]=[[X8]]",
    "Atlassian API token": "ATATT3xFfGF0[[u171]]=[[X8]]",
    "Trello token": "ATTA[[x64]][[x8]]",
    "Sourcegraph token": "sgp_[[x16]]_[[x40]]",
    "CircleCI token": "CCIPAT_[[m22]]_[[x40]]",
    "Buildkite token": "bkua_[[x40]]",
    "Terraform Cloud token": "[[m14]].atlasv1.[[u67]]",
    "Pulumi token": "pul-[[x40]]",
    "Octopus Deploy API key": "API-[[A26]]",
    "Harness token": "pat.[[?u22]].[[x24]].[[m20]]",
    "Doppler token": "dp.pt.[[m43]]",
    "Doppler service token": "dp.st.dev.[[m43]]",
    "Infisical service token": "st.[[x24]].[[x32]].[[x32]]",
    "Vault service token": "hvs.[[u94]]",
    "Vault batch token": "hvb.[[u140]]",
    "1Password service account token": "ops_eyJ[[u400]]",
    "1Password secret key": "A3-[[A6]]-[[A6]]-[[A5]]-[[A5]]-[[A5]]-[[A5]]",
    "age identity": "AGE-SECRET-KEY-1[[z58]]",
    "SonarQube token": "squ_[[x40]]",
    # Package registries
    "npm token": "npm_[[m36]]",
    "PyPI token": "pypi-AgEIcHlwaS5vcmc[[u150]]",
    "RubyGems key": "rubygems_[[x48]]",
    "NuGet key": "oy2[[a43]]",
    "crates.io token": "cio[[m32]]",
    "Docker Hub token": "dckr_pat_[[u27]]",
    "Docker organisation token": "dckr_oat_[[u32]]",
    "JFrog API key": "AKCp[[m69]]",
    "JFrog reference token": "cmVmdGtu[[m56]]",
    "Clojars token": "CLOJARS_[[x60]]",
    # Chat
    "Slack bot token": "xoxb-[[?n12]]-[[?n13]]-[[m24]]",
    "Slack user token": "xoxp-[[?n12]]-[[?n12]]-[[?n13]]-[[x32]]",
    "Slack app token": "xapp-1-A[[?A10]]-[[?n13]]-[[x64]]",
    "Slack configuration token": "xoxe.xoxp-1-[[m163]]",
    "Slack webhook": "https://hooks.slack.com/services/T[[?A10]]/B[[?A10]]/[[m24]]",
    "Discord bot token": "MT[[m24]].G[[m5]].[[u38]]",
    "Discord webhook": "https://discord.com/api/webhooks/[[?n18]]/[[u68]]",
    "Telegram bot token": "[[?n10]]:AA[[u33]]",
    "Twilio API key": "SK[[x32]]",
    "Meta access token": "EAA[[m190]]",
    "Intercom token": "dG9rOj[[m54]]=",
    # Mail
    "SendGrid API key": "SG.[[u22]].[[u43]]",
    "Mailgun API key": "key-[[x32]]",
    "Mailchimp API key": "[[x32]]-us21",
    "Brevo API key": "xkeysib-[[x64]]-[[m16]]",
    "Resend API key": "re_[[m8]]_[[m24]]",
    "Mandrill API key": "md-[[u22]]",
    "MailerSend token": "mlsn.[[x64]]",
    "Klaviyo key": "pk_[[x34]]",
    # Payment and commerce
    "Stripe secret key": "sk_live_[[m99]]",
    "Stripe restricted key": "rk_live_[[m99]]",
    "Stripe webhook secret": "whsec_[[m32]]",
    "Square access token": "EAAA[[u60]]",
    "Square OAuth secret": "sq0csp-[[u43]]",
    "PayPal access token": "access_token$production$[[?a16]]$[[x32]]",
    "Razorpay key id": "rzp_live_[[m14]]",
    "Paddle API key": "pdl_live_apikey_[[a26]]_[[m22]]_[[m3]]",
    "Shopify admin token": "shpat_[[x32]]",
    "Shopify shared secret": "shpss_[[x32]]",
    "Mollie key": "live_[[m30]]",
    "Flutterwave secret": "FLWSECK-[[x32]]-X",
    "EasyPost key": "EZAK[[m54]]",
    "Shippo token": "shippo_live_[[x40]]",
    "Duffel token": "duffel_live_[[u43]]",
    "WooCommerce consumer secret": "cs_[[x40]]",
    "Plaid access token": "access-production-[[uuid]]",
    # AI
    "OpenAI project key": "sk-proj-[[u74]]T3BlbkFJ[[u74]]",
    "OpenAI service account key": "sk-svcacct-[[u74]]T3BlbkFJ[[u74]]",
    "Anthropic API key": "sk-ant-api03-[[u93]]AA",
    "Anthropic OAuth token": "sk-ant-oat01-[[u93]]AA",
    "Hugging Face token": "hf_[[m34]]",
    "Replicate token": "r8_[[m37]]",
    "Groq API key": "gsk_[[m52]]",
    "xAI API key": "xai-[[m80]]",
    "Perplexity API key": "pplx-[[m48]]",
    "DeepSeek API key": "sk-[[x32]]",
    "OpenRouter key": "sk-or-v1-[[x64]]",
    "Fireworks key": "fw_[[m22]]",
    "Together key": "tgp_v1_[[u43]]",
    "ElevenLabs key": "sk_[[x48]]",
    "LangSmith key": "lsv2_pt_[[x32]]_[[x10]]",
    "Langfuse secret key": "sk-lf-[[uuid]]",
    "Cerebras key": "csk-[[a48]]",
    "Jina key": "jina_[[x32]][[u28]]",
    "Tavily key": "tvly-dev-[[m32]]",
    "Firecrawl key": "fc-[[x32]]",
    "E2B key": "e2b_[[x40]]",
    "Modal secret": "as-[[m22]]",
    "NVIDIA key": "nvapi-[[u64]]",
    "RunPod key": "rpa_[[A42]]",
    "LlamaCloud key": "llx-[[m48]]",
    "Gemini auth key": "AQ.Ab[[u48]]",
    # Monitoring, analytics and features
    "New Relic user key": "NRAK-[[A27]]",
    "New Relic licence key": "[[x36]]NRAL",
    "Grafana service token": "glsa_[[m32]]_[[x8]]",
    "Grafana Cloud token": "glc_eyJ[[m120]]",
    "Sentry organisation token": "sntrys_eyJ[[m120]]_[[b43]]",
    "Sentry user token": "sntryu_[[x64]]",
    "Honeycomb key": "hcaik_01[[a56]]",
    "Dynatrace token": "dt0c01.[[?A24]].[[A64]]",
    "Axiom token": "xaat-[[uuid]]",
    "LaunchDarkly key": "sdk-[[uuid]]",
    "PostHog key": "phx_[[m43]]",
    "Statsig key": "secret-[[m43]]",
    "Checkly key": "cu_[[x32]]",
    # Identity and everything else
    "Okta token": "00[[u40]]",
    "Clerk secret key": "sk_live_[[m42]]",
    "Stytch secret": "secret-live-[[u36]]",
    "X bearer token": "AAAAAAAAAAAAAAAAAAAAA[[m30]]%3D[[m50]]",
    "JSON web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi[[u60]].[[u43]]",
    "Notion token": "ntn_[[n11]][[m35]]",
    "Notion old token": "secret_[[m43]]",
    "Linear key": "lin_api_[[m40]]",
    "Airtable token": "pat[[m14]].[[x64]]",
    "Asana token": "2/[[?n16]]/[[?n16]]:[[x32]]",
    "ClickUp token": "pk_[[?n8]]_[[A32]]",
    "Figma token": "figd_[[u40]]",
    "Contentful token": "CFPAT-[[u43]]",
    "HubSpot token": "pat-na1-[[uuid]]",
    "Salesforce session": "00D[[?m12]]![[m96]]",
    "Dropbox token": "sl.u.[[u180]]",
    "Typeform token": "tfp_[[u44]]_[[m14]]",
    "Postman key": "PMAK-[[x24]]-[[x34]]",
    "ReadMe key": "rdme_[[a70]]",
    "Adobe client secret": "p8e-[[u32]]",
    "Prefect key": "pnu_[[a36]]",
    "Mapbox secret token": "sk.eyJ[[m80]].[[u22]]",
    "Ghost admin key": "[[x24]]:[[x64]]",
    "Inngest signing key": "signkey-prod-[[x64]]",
    "Trigger.dev key": "tr_prod_[[m24]]",
    "Ably key": "[[?m6]].[[m6]]:[[u43]]",
}

# Credentials without a shape of their own: only their name tells what they are.
NAMED = {
    "AWS secret access key": "[[b40]]",
    "Azure OpenAI key": "[[x32]]",
    "Cosmos DB primary key": "[[b86]]==",
    "Hetzner API token": "[[m64]]",
    "Linode token": "[[x64]]",
    "Vultr API key": "[[A36]]",
    "Railway token": "[[uuid]]",
    "Scaleway secret key": "[[uuid]]",
    "Gitea token": "[[x40]]",
    "Travis token": "[[u22]]",
    "Jenkins API token": "11[[x32]]",
    "Consul token": "[[uuid]]",
    "Twilio auth token": "[[x32]]",
    "Zendesk API token": "[[m40]]",
    "Postmark server token": "[[uuid]]",
    "Mailjet secret key": "[[x32]]",
    "Mistral API key": "[[m32]]",
    "Cohere API key": "[[m40]]",
    "AssemblyAI API key": "[[x32]]",
    "Deepgram API key": "[[x40]]",
    "Weights and Biases API key": "[[x40]]",
    "Datadog API key": "[[x32]]",
    "Datadog application key": "[[x40]]",
    "PagerDuty API key": "u+[[u18]]",
    "Splunk HEC token": "[[uuid]]",
    "Elastic API key": "[[b58]]==",
    "Algolia admin key": "[[x32]]",
    "Amplitude secret key": "[[x32]]",
    "Auth0 client secret": "[[u64]]",
    "Keycloak client secret": "[[m32]]",
    "Twitch client secret": "[[a30]]",
    "Upstash REST token": "[[b72]]==",
    "Binance secret key": "[[m64]]",
    "Braintree private key": "[[x32]]",
}

# Shell commands.
SHELL = {
    "mysql -p": "mysql -h db.example.com -u app -p'[[P]]' shop -e 'select 1'",
    "curl -u": "curl -sS -u 'deploy:[[P]]' https://repo.example.com/api",
    "--password with a blank": "mongosh --host db1 --username app --password '[[P]]'",
    "--password with an equals sign": "vault login -method=userpass username=ana --password='[[P]]'",
    "sshpass": "sshpass -p '[[P]]' ssh admin@10.0.0.4 uptime",
    "PGPASSWORD": "PGPASSWORD='[[P]]' psql -h db -U app -c '\\dt'",
    "redis-cli -a": "redis-cli -h cache -a '[[Q]]' ping",
    "docker login -p": "docker login -u ci -p '[[P]]' registry.example.com",
    "openssl pass": "openssl enc -aes-256-cbc -in a.tar -out a.enc -pass pass:[[Q]]",
    "kubectl literal": "kubectl create secret generic db --from-literal=password='[[P]]'",
    "aws configure": "aws configure set aws_secret_access_key [[b40]]",
    "helm --set": "helm upgrade shop ./chart --set postgresql.auth.password=[[Q]]",
    "gh secret set": "gh secret set DEPLOY_TOKEN --body '[[m32]]'",
    "htpasswd": "htpasswd -b /etc/nginx/.htpasswd ana '[[P]]'",
    "password on stdin": "echo '[[P]]' | docker login -u ci --password-stdin",
    "chpasswd": "echo 'root:[[P]]' | sudo chpasswd",
    "ldapsearch -w": "ldapsearch -x -D cn=admin,dc=example -w '[[P]]' -b dc=example",
    "smbclient": "smbclient //files/share -U 'ana%[[Q]]' -c ls",
    "wget password": "wget --http-user=ana --http-password='[[P]]' https://files.example.com/a.zip",
    "zip -P": "zip -P '[[P]]' -r backup.zip docs",
    "ansible variable": "ansible-playbook site.yml -e ansible_become_pass='[[P]]'",
    "git clone with a token": "git clone https://oauth2:[[m26]]@git.example.com/team/app.git",
    "exported secret": "export SESSION_SECRET='[[m48]]' && npm start",
    "sudo -S": "echo '[[P]]' | sudo -S systemctl restart nginx",
    "createuser in SQL": "psql -c \"CREATE USER app WITH PASSWORD '[[P]]'\"",
    "private token header": "curl -H 'PRIVATE-TOKEN: [[u20]]' https://git.example.com/api/v4/projects",
}

# Addresses.
ADDRESSES = {
    "PostgreSQL URL": "postgresql://app:[[Q]]@db.example.com:5432/shop",
    "MongoDB URL": "mongodb+srv://app:[[Q]]@cluster0.example.net/shop?retryWrites=true",
    "Redis URL": "rediss://:[[Q]]@cache.example.com:6380/0",
    "AMQP URL": "amqps://app:[[Q]]@mq.example.com/prod",
    "JDBC URL": "jdbc:mysql://db.example.com:3306/shop?user=app&password=[[Q]]&useSSL=true",
    "SMTP URL": "smtps://mailer:[[Q]]@smtp.example.com:465",
    "basic auth URL": "https://ana:[[Q]]@intranet.example.com/report",
    "S3 presigned URL": "https://b.s3.amazonaws.com/a.pdf?X-Amz-Date=20260301T101500Z&X-Amz-Signature=[[x64]]",
    "S3 presigned URL with a session": "https://b.s3.amazonaws.com/a.pdf?X-Amz-Security-Token=[[m200]]&X-Amz-Expires=900",
    "GCS signed URL": "https://storage.googleapis.com/b/a.pdf?X-Goog-Expires=600&X-Goog-Signature=[[x512]]",
    "Azure SAS URL": "https://acct.blob.core.windows.net/c/a.pdf?sv=2024-11-04&sp=r&sig=[[m43]]%3D",
    "CloudFront signed URL": "https://cdn.example.com/a.mp4?Expires=1767225600&Signature=[[u344]]&Key-Pair-Id=K2JCJMDE",
    "magic link": "https://app.example.com/login/verify?token=[[u43]]",
    "password reset path": "https://app.example.com/reset-password/[[u43]]",
    "OAuth callback": "https://app.example.com/callback?state=home&code=[[u43]]",
    "token in a fragment": "https://app.example.com/#access_token=[[u60]]&expires_in=3600",
    "api key parameter": "https://api.example.com/v1/geo?q=Graz&apikey=[[x32]]",
    "unsubscribe key": "https://api.example.com/feed.ics?auth=[[m32]]",
    "otpauth": "otpauth://totp/Example:ana@example.com?secret=[[B32]]&issuer=Example",
    "SSH URL with password": "sftp://ana:[[Q]]@files.example.com/in",
    "Sentry DSN": "https://[[x32]]@o45012.ingest.sentry.io/4506",
    "incoming webhook": "https://example.webhook.office.com/webhookb2/[[?uuid]]@[[?uuid]]/IncomingWebhook/[[x32]]/[[?uuid]]",
}

# Lines of configuration, source, headers and prose.
LINES = {
    "ADO connection string": "Server=db;Database=shop;User Id=app;Password=[[P]];Encrypt=true",
    "ODBC connection string": "Driver={PostgreSQL};Server=db;Uid=app;Pwd=[[P]];",
    "libpq string": "host=db.example.com dbname=shop user=app password=[[Q]] sslmode=require",
    "storage connection string": "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=[[b86]]==;EndpointSuffix=core.windows.net",
    "service bus string": "Endpoint=sb://bus.example.net/;SharedAccessKeyName=Root;SharedAccessKey=[[b43]]=",
    "bearer header": "Authorization: Bearer [[u40]]",
    "token header": "Authorization: Token [[x40]]",
    "api key header": "X-Api-Key: [[m32]]",
    "auth token header": "X-Auth-Token: [[m32]]",
    "digest header": 'Authorization: Digest username="ana", realm="r", nonce="1", response="[[x32]]"',
    "cookie header": "Cookie: theme=dark; sessionid=[[a32]]",
    "set-cookie header": "Set-Cookie: connect.sid=s%3A[[m32]].[[m43]]; Path=/; HttpOnly",
    "XML element": "<server><username>ci</username><password>[[Q]]</password></server>",
    "XML attribute": '<add name="Shop" userName="app" password="[[Q]]" />',
    "YAML": "database:\n  user: app\n  password: [[Q]]\n",
    "YAML secret": "kind: Secret\nstringData:\n  db-pass: [[Q]]\n",
    "INI": "[smtp]\nuser = mailer\npassword = [[P]]\n",
    "TOML": '[auth]\nclient_id = "web"\nclient_secret = "[[m40]]"\n',
    "dotenv": "NODE_ENV=production\nDB_PASSWORD=[[Q]]\nPORT=3000\n",
    "properties": "spring.datasource.username=app\nspring.datasource.password=[[Q]]\n",
    "netrc": "machine git.example.com login ana password [[Q]]",
    "pgpass": "db.example.com:5432:shop:app:[[Q]]",
    "npmrc": "//registry.example.com/:_authToken=[[m36]]",
    "pypirc": "[pypi]\nusername = __token__\npassword = [[u60]]\n",
    "docker config": '{"auths": {"registry.example.com": {"auth": "[[b43]]="}}}',
    "wp-config": "define( 'DB_PASSWORD', '[[P]]' );",
    "salt in wp-config": "define( 'AUTH_KEY', '[[m64]]' );",
    "PHP array": "'host' => 'db', 'password' => '[[P]]',",
    "JavaScript constant": 'const dbPassword = "[[P]]";',
    "Python argument": 'connect(host="db", user="app", password="[[P]]")',
    "Java setter": 'dataSource.setPassword("[[P]]");',
    "Terraform variable": 'variable "db_password" {\n  default = "[[P]]"\n}',
    "MySQL user": "CREATE USER 'app'@'%' IDENTIFIED BY '[[P]]';",
    "WireGuard": "[Interface]\nPrivateKey = [[b43]]=\nAddress = 10.0.0.2/24",
    "Wi-Fi": 'network={\n  ssid="Office"\n  psk="[[P]]"\n}',
    "shadow": "ana:$6$[[?m16]]$[[m86]]:19800:0:99999:7:::",
    "SSH private key": "-----BEGIN OPENSSH PRIVATE KEY-----\n[[b70]]\n[[b70]]\n[[b40]]=\n-----END OPENSSH PRIVATE KEY-----",
    "PKCS 8 private key": "-----BEGIN PRIVATE KEY-----\n[[b64]]\n[[b64]]\n[[b24]]=\n-----END PRIVATE KEY-----",
    "encrypted private key": "-----BEGIN ENCRYPTED PRIVATE KEY-----\n[[b64]]\n[[b64]]\n-----END ENCRYPTED PRIVATE KEY-----",
    "PGP private key": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n[[b64]]\n[[b64]]\n=[[?m4]]\n-----END PGP PRIVATE KEY BLOCK-----",
    "PuTTY private key": "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n[[b48]]\nPrivate-MAC: [[x64]]",
    "JSON web key": '{"kty": "EC", "crv": "P-256", "d": "[[u43]]"}',
    "JSON with a telling name": '{"user": "app", "clientSecret": "[[m40]]"}',
    "the password is": "For the staging server the password is [[P]], please change it.",
    "password with a colon": "Login: ana@example.com\nPassword: [[P]]\n",
    "pw with an equals sign": "user = ana, pw = [[P]]",
    "German prose": "Das Passwort lautet [[P]] und gilt bis Freitag.",
    "French prose": "Le mot de passe : [[P]]",
    "Spanish prose": "La contraseña es [[P]]",
    "credentials with a slash": "creds for the wiki: ana / [[P]]",
    "passphrase": "The passphrase for the backup is [[W4]].",
    "one-time code": "Your verification code is [[n6]]. It expires in 10 minutes.",
    "recovery codes": "Recovery codes: [[a10]] [[a10]] [[a10]]",
    "seed phrase": "My wallet's seed phrase: [[S12]]",
    "changed password": "I changed the root password to [[P]] this morning.",
    "Wi-Fi password": "Guest Wi-Fi password → [[P]]",
    "named in brackets": "API secret (prod): `[[m32]]`",
    "authenticator setup key": "Setup key for the authenticator: [[B32]]",
}

# Structured parameters of a call, as JSON.
PARAMS = {
    "password field": '{"username": "ana", "password": "[[P]]"}',
    "apiKey field": '{"apiKey": "[[m32]]", "region": "eu"}',
    "nested credentials": '{"credentials": {"user": "ana", "secret": "[[P]]"}}',
    "auth pair": '{"url": "https://api.example.com", "auth": ["ana", "[[P]]"]}',
    "passphrase field": '{"archive": "a.zip", "passphrase": "[[P]]"}',
    "headers object": '{"headers": {"Authorization": "Bearer [[u40]]"}}',
    "name and value pair": '{"env": [{"name": "DB_PASSWORD", "value": "[[P]]"}]}',
    "key and value pair": '{"key": "client_secret", "value": "[[m40]]"}',
    "argument list": '{"args": ["--user", "ana", "--password", "[[P]]"]}',
    "cookies object": '{"cookies": {"session": "[[m43]]"}}',
    "session token field": '{"sessionToken": "[[m43]]"}',
    "one-time code field": '{"otp": "[[n6]]"}',
    "private key field": '{"private_key": "[[b64]]"}',
    "connection string field": '{"connectionString": "Server=db;Uid=app;Pwd=[[P]]"}',
    "signing secret field": '{"webhook": {"signingSecret": "[[x32]]"}}',
    "form fields": '{"fields": {"login[email]": "ana@example.com", "login[password]": "[[P]]"}}',
    "typed text": '{"selector": "input[type=password]", "text": "[[P]]"}',
    "labelled element": '{"element": "Password field", "text": "[[P]]"}',
}

WORDS = (
    "anchor bramble candle dapple ember falcon glimmer hazel indigo juniper kestrel lantern marble nectar "
    "orchard pebble quartz raven saffron thistle umbra velvet willow yonder zephyr copper drizzle feather"
).split()


@dataclass(frozen=True, slots=True)
class Credential:
    """A made-up credential of one kind: its text, and the parts of the text that are secret."""

    kind: str
    text: str
    secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One call, or one tool result, that contains a credential. `context` says where the credential is."""

    kind: str
    group: str
    context: str
    tool: str
    params: dict[str, Any]
    secrets: tuple[str, ...]
    result: str | None = None


Tables = Mapping[str, Mapping[str, str]]
"""Templates by group and kind."""
TABLES: Tables = {
    "shaped": SHAPED,
    "named": NAMED,
    "shell": SHELL,
    "address": ADDRESSES,
    "line": LINES | {"basic header": ""},
    "params": PARAMS,
}


def kinds(tables: Tables = TABLES) -> dict[str, str]:
    """Return every kind with its group."""
    return {kind: group for group, rows in tables.items() for kind in rows}


def half(kind: str) -> int:
    """Return 1 or 2: the redactor was mended by looking at misses of half 1 only."""
    return hashlib.sha256(b"independent:" + kind.encode()).digest()[0] % 2 + 1


def make(kind: str, seed: int, tables: Tables = TABLES) -> Credential:
    """Make a credential of the kind. The same seed makes the same credential."""
    rng = random.Random(f"{kind}:{seed}")
    if kind == "basic header":
        text = base64.b64encode(f"ana:{_password(rng, symbols=True)}".encode()).decode()
        return Credential(kind, f"Authorization: Basic {text}", (text,))
    template = next(rows[kind] for rows in tables.values() if kind in rows)
    secrets: list[str] = []

    def fill(match: re.Match[str]) -> str:
        value = _random(rng, match[2])
        if not match[1]:
            secrets.append(value)
        return value

    return Credential(kind, re.sub(r"\[\[(\??)(\w+)\]\]", fill, template), tuple(secrets))


def cases(seed: int = 1, tables: Tables = TABLES) -> Iterator[Case]:
    """Yield every kind in every context where it occurs in practice."""
    for kind, group in kinds(tables).items():
        credential = make(kind, seed, tables)
        for context, tool, params, result in _contexts(credential, group):
            yield Case(kind, group, context, tool, params, credential.secrets, result)


def survives(secrets: tuple[str, ...], text: str, run: int = 6) -> bool:
    """Return True if `run` or more successive characters of a secret are in the text."""
    return any(s[i : i + run] in text for s in secrets for i in range(max(1, len(s) - run + 1)) if len(s) >= run)


def _random(rng: random.Random, code: str) -> str:
    if code == "uuid":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    if code in ("P", "Q"):
        return _password(rng, symbols=code == "P")
    letter, count = code[0], int(code[1:])
    if letter in "WS":
        return ("-" if letter == "W" else " ").join(rng.sample(WORDS, count))
    return "".join(rng.choices(ALPHABETS[letter], k=count))


def _password(rng: random.Random, *, symbols: bool) -> str:
    """Make a password as a generator or a person makes it."""
    alphabet = ALPHABETS["m"]
    style = rng.randrange(4)
    if style == 0:
        return "".join(rng.choices(alphabet, k=16))
    if style == 1:
        return f"{rng.choice(WORDS).title()}{rng.randrange(1000, 9999)}" + ("!" if symbols else "")
    if style == 2:
        return "-".join(rng.sample(WORDS, 3))
    return "".join(rng.choices(alphabet + ("#_-.!*" if symbols else "_-."), k=13)) + "x"


def _names(kind: str) -> tuple[str, str]:
    words = re.sub(r"[^A-Za-z0-9 ]", " ", kind).split()
    camel = words[0].lower() + "".join(word.title() for word in words[1:])
    return "_".join(words).upper(), camel


def _contexts(credential: Credential, group: str) -> Iterator[tuple[str, str, dict[str, Any], str | None]]:
    text, (variable, field) = credential.text, _names(credential.kind)
    if group == "params":
        params = json.loads(text)
        yield "json param", "mcp__crm__update", params, None
        yield "json in a string", "mcp__http__request", {"method": "POST", "body": text}, None
        yield "json file", "Write", {"file_path": "/srv/app/settings.json", "content": text}, None
        yield "nested json param", "mcp__crm__batch", {"items": [{"id": 7, "data": params}]}, None
        yield "tool result", "mcp__crm__read", {"id": 7}, text
        return
    if group in ("shell", "line"):
        if group == "shell":
            yield "shell line", "Bash", {"command": text, "description": "Run it"}, None
            yield "second shell line", "Bash", {"command": f"cd /srv/app && {text}"}, None
            yield (
                "script file",
                "Write",
                {"file_path": "/srv/app/run.sh", "content": f"#!/bin/sh\nset -e\n{text}\n"},
                None,
            )
        else:
            yield "here document", "Bash", {"command": f"cat > /srv/app/notes.conf <<'END'\n{text}\nEND"}, None
            yield "file content", "Write", {"file_path": "/srv/app/notes.conf", "content": text}, None
            yield (
                "edited file",
                "Edit",
                {"file_path": "/srv/app/notes.conf", "old_string": "x", "new_string": text},
                None,
            )
        yield "mail body", "mcp__gmail__send_email", _mail(f"Hi Ana,\n\nas discussed:\n\n{text}\n\nBest\nTom"), None
        yield "json param", "mcp__notes__create", {"title": "Setup", "text": text}, None
        yield "tool result", "Read", {"file_path": "/srv/app/notes.conf"}, text
        return
    if group == "address":
        yield "address", "WebFetch", {"url": text, "prompt": "Summarise"}, None
        yield "browser", "mcp__browser__navigate", {"url": text}, None
        yield "shell line", "Bash", {"command": f"./fetch.sh '{text}'"}, None
        yield "mail body", "mcp__gmail__send_email", _mail(f"Please use this one: {text}\n\nTom"), None
        yield "file content", "Write", {"file_path": "/srv/app/app.conf", "content": f"target = {text}\n"}, None
        yield "tool result", "mcp__crm__read", {"id": 7}, f"The address is {text}"
        return
    spoken = credential.kind
    yield "named json param", "mcp__vault__store", {field: text, "scope": "team"}, None
    yield "named prose", "mcp__gmail__send_email", _mail(f"Hi Ana,\n\nthe {spoken} is {text}\n\nBest\nTom"), None
    yield "export", "Bash", {"command": f"export {variable}='{text}' && make deploy"}, None
    yield "dotenv", "Write", {"file_path": "/srv/app/.env", "content": f"PORT=3000\n{variable}={text}\n"}, None
    yield (
        "yaml",
        "Write",
        {"file_path": "/srv/app/values.yaml", "content": f"env:\n  {variable.lower()}: {text}\n"},
        None,
    )
    yield "header", "Bash", {"command": f"curl -H 'X-Api-Key: {text}' https://api.example.com/v1/me"}, None
    yield "parameter", "WebFetch", {"url": f"https://api.example.com/v1/me?api_key={text}", "prompt": "Who am I?"}, None
    yield "named tool result", "mcp__crm__read", {"id": 7}, f"{variable}={text}"
    if group == "named":
        return
    yield "neutral json param", "mcp__notes__create", {"title": "Setup", "text": f"Use {text} for now."}, None
    yield "neutral mail body", "mcp__gmail__send_email", _mail(f"Hi Ana,\n\nplease take {text}\n\nBest\nTom"), None
    yield "shell argument", "Bash", {"command": f"./deploy.sh '{text}' --region eu"}, None
    yield "source", "Write", {"file_path": "/srv/app/main.py", "content": f'client = Client("{text}")\n'}, None
    yield "neutral tool result", "mcp__crm__read", {"id": 7}, f"Created: {text}"
    if "/" not in text and " " not in text:
        yield "file name", "Read", {"file_path": f"/srv/backup/{text}.txt"}, None
        yield "address path", "WebFetch", {"url": f"https://api.example.com/hooks/{text}", "prompt": "Read"}, None
        yield "target", "mcp__slack__post_message", {"channel": text, "text": "Hello"}, None


def _mail(body: str) -> dict[str, Any]:
    return {"to": "ana@example.com", "subject": "Setup", "body": body}
