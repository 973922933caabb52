"""The fourth set of made-up credentials, from the rules of two scanners that nobody used for the redactor. It is frozen.

Forty rule files of Nosey Parker and Kingfisher, taken from the beginnings of their lists and by their topic, each with
all its rules and examples of secrets; identifiers are left out. ``SHAPED`` are shapes that a rule finds wherever they
are, ``NAMED`` those that a rule finds only behind a provider's name, and the other tables are the examples of rules for
programs, settings and code. Scanners look for what leaks into repositories: few of these cases are command lines.

Whoever transcribed it had extended the redactor just before, for classes of misses that this set was not known for, and
wrote it before measuring anything. Templates, contexts and measure are those of ``bench.secrets_independent``.
"""

from typing import Final

# ruff: noqa: E501  (a template is one line, as it occurs)
SHAPED: Final = {
    "Arcjet key": "ajkey_[[a26]]",
    "Browserbase live key": "bb_live_[[u27]]",
    "Browserbase test key": "bb_test_[[u27]]",
    "Cal.com live key": "cal_live_[[m32]]",
    "Cal.com key": "cal_[[m32]]",
    "Cartesia key": "sk_car_[[m20]]",
    "Composio project key": "ak_[[u20]]",
    "Composio consumer key": "ck_[[u20]]",
    "StackHawk key": "hawk.[[u20]].[[u20]]",
    "Dependency-Track key": "odt_[[m32]]",
    "Segment public API token": "sgp_[[m64]]",
}

NAMED: Final = {
    "Close key": "api_[[m22]].[[m22]]",
    "Courier production key": "pk_prod_[[m24]]",
    "Courier test token": "dk_test_[[m24]]",
    "Bamboo access token": "MT[[m14]]Oh[[m26]]",
    "Agora app certificate": "[[x32]]",
    "Agora customer secret": "[[x32]]",
    "Airbyte client secret": "[[m32]]",
    "Bitrise personal access token": "[[u64]]",
    "Kagi API key": "[[u11]].[[u43]]",
    "TrueNAS API key": "8-[[m64]]",
    "Particle access token": "[[x40]]",
    "Sauce access key": "[[uuid]]",
    "Okta API token": "00[[u38]][[m2]]",
    "Cielo client secret": "[[m32]]",
    "Cielo merchant key": "[[m40]]",
    "Capella API secret": "[[b70]]==",
    "Jenkins token": "11[[x32]]",
    "Azure SQL password": "[[P]]",
}

SHELL: Final = {
    "curl with a login": "curl --cacert ca.crt -u elastic:[[Q]] https://localhost:9200",
    "curl with a mail address": "curl --user roger23@example.com:[[m10]] https://www.dropbox.com",
    "curl with a token header": 'curl -H "Authorization: Token [[x40]]" https://api.example.com',
    "psexec, capitals": "cmd.exe /C PSEXEC \\\\10.0.94.120 -u Administrator -p [[Q]] CMD /C ECHO",
    "psexec with a domain": "PSEXEC.EXE \\\\10.0.0.3 -u DOMAIN\\my-user -p [[Q]] CMD",
    "psexec with flags": "start PsExec.exe /accepteula @C:\\share$\\comps1.txt -u DOMAIN\\ADMINISTRATOR -p [[Q]] cmd /c COPY a b",
    "psexec in code": 'system("psexec \\\\\\\\192.168.3.77 -u Administrator -p [[Q]] shutdown -r -f -t 0");',
    "Connect-VIServer": "Connect-VIServer -Server 192.168.1.51 -User administrator@vsphere.local -Password [[Q]]",
    "connect-viserver": "$null = connect-viserver vc.lab.local -user administrator@vsphere.local -password [[Q]]",
    "curl to Blynk": 'curl "https://blynk.cloud/external/api/get?token=[[u32]]&V1"',
    "Blynk login": "curl -X POST https://fra1.blynk.cloud/oauth2/token?grant_type=client_credentials -u oa2-client-id_[[?u32]]:[[u40]]",
    "curl with data": "curl https://api.particle.io/v1/devices -d access_token=[[x40]]",
    "crumb header": "curl -X POST http://jenkins.example.com/job/a/build -H 'Jenkins-Crumb:[[x32]]'",
    "credhub": 'credhub set -n /prod/db -t value -v "[[Q]]"',
    "piped with an option": "echo [[Q]] | tibschemad -s example --password stdin",
}

ADDRESSES: Final = {
    "login in a URL": "https://eaRIWNkE:[[Q]]@example.com/",
    "ThingsBoard device": "https://thingsboard.cloud/api/v1/[[a20]]/telemetry",
    "ThingsBoard over CoAP": "coap://coap.thingsboard.cloud/api/v1/[[a20]]/telemetry",
    "Blynk property": "https://blynk.cloud/external/api/update/property?token=[[u32]]&pin=v1&isDisabled=true",
    "Kagi search": "https://kagi.com/search?token=[[u11]].[[u43]]",
    "Particle events": "https://api.particle.io/v1/devices/events?access_token=[[x40]]",
}

LINES: Final = {
    "enable password": "enable password [[Q]]",
    "enable secret": "enable secret level 15 5 $1$[[?m8]]$[[m22]]",
    "SNMP community": "snmp-server community [[Q]] RW 99",
    "PAC key": "pac key 7 [[X12]]",
    "PAC key in clear": "pac key 0 [[Q]]",
    "ODBC": "Server=host;Port=5432;User Id=username;Password=[[Q]];Database=databasename;",
    "SQL Server": "Data Source=190.190.200.100,1433;Network Library=DBMSSOCN;Initial Catalog=myDataBase;User ID=myUsername;Password=[[Q]];",
    "SQLNCLI": "Provider=SQLNCLI;Server=myServerName,myPortNumber;Database=myDataBase;Uid=myUsername;Pwd=[[Q]];",
    "ADO": 'adoConn.Open("Provider=SQLOLEDB.1;User ID=specialbill_user; " & "Password =[[Q]];Initial Catalog=SpecialBill_PROD;Data Source=uszdba01;")',
    "connection string in XML": '<add name="Trucks" connectionString="Server=hookup; Database=YogurtDelay: User Id=kmw; password= [[Q]]" providerName="System.Data.SqlClient" />',
    "Azure SQL": "Server=tcp:myserver.database.windows.net,1433;Initial Catalog=mydb;Persist Security Info=False;User ID=admin;Password=[[Q]];",
    "PHP assignment": '$user = "mg1021";              $password = "[[Q]]";',
    "PHPMailer": "$mail->Username   = 'user@example.com';                     //SMTP username\n$mail->Password   = '[[Q]]';                               //SMTP password",
    "Java constant": 'private static String CLIENT_SECRET = "[[x40]]";',
    "client credential": "client_credential='[[m3]]8Q~[[u34]]'",
    "dashes": "Ldap password               ----   [[Q]]",
    "Gradle field": "buildConfigField 'String' , 'API_KEY' , '\"[[x32]]\"'",
    "Python credential": "credential = UsernamePasswordCredential(\n    username='donjuandemarco',\n    password='[[Q]]',\n    tenant_id='bc877b20-f135-4c13-a266-8ed26b8f0f4b')",
    "Python settings": "hostname = '10.11.12.13'\nUSERNAME = 'donjuandemarco@example.com'\n# some comment\nPASS = '[[Q]]'",
    "C# string": 'string backend_user = "root";\nstring backend_pass = "[[Q]]";',
    "Apache DBD": ":authn_dbd_params => 'host=db_host port=3306 user=apache password=[[Q]] dbname=apache_auth',",
    "Go assignment": 'my_password := "[[Q]]"',
    "Ruby hash": ":password       => '[[Q]]',",
    "certificate password": 'private const string DevFolkoosComPfxPassword = "[[Q]]";',
    "JavaScript call": "common.then_log_in({username: 'geronimo', password: '[[Q]]'});",
    "NetworkCredential": 'sender.Credentials = new NetworkCredential("NuGets@example.com", "[[Q]]");',
    "NetworkCredential in PowerShell": '$webClient.Credentials = new-object System.Net.NetworkCredential("cidownload", "[[Q]]");',
    "DirectoryEntry": '$domain = New-Object DirectoryServices.DirectoryEntry("LDAP://10.10.10.1","domain\\user", "[[Q]]")',
    "DirectoryEntry on lines": 'new DirectoryEntry("LDAP://EXAMPLE.COM",\n          "ADMNALRRHH@EXAMPLE.COM",\n          "[[Q]]");',
    "XML setting": '<add key="FromEmailPassword" value="[[Q]]"/>',
    "XML connection string": '<add key="ConnectionString_B2B" value="Server=awsbman-t,1433;Database=B2B;User ID=b2buser;Password=[[Q]];Trusted_Connection=False" />',
    "quoted sentence": "The default Password is '[[Q]]'",
    "instruction": 'just fill in your mount point name, ensure the password is "[[Q]]" and press the "On" button!',
    "password for user": "2. Ensure the password for user 'postgres' is '[[Q]]' or change .env file.",
    "password for the user": 'The default password for the user "pyne-user" is "[[Q]]".',
    "basic header": "Authorization: Basic [[b24]]==",
    "bearer header": "GET /resource HTTP/1.1\nHost: server.example.com\nAuthorization: Bearer [[u16]]",
    "SSWS header": "Authorization: SSWS 00[[u38]][[m2]]",
    "netrc": "machine api.github.com login ziggy^stardust password [[Q]]",
    "netrc on lines": "machine raw.github.com\n  login visionmedia\n  password [[Q]]",
    "Gitalk": "new Gitalk({\n  clientID: '[[?x20]]',\n  clientSecret:'[[x40]]',",
    "Django": "SECRET_KEY = 'django-insecure-[[m24]]^(+=[[m20]]'",
    "Terraform variable": 'variable "corp_okta_api_token" {\n  default = "00[[u38]][[m2]]"\n}',
    "WireGuard": "[Interface]\nAddress = 10.200.200.3/32\nPrivateKey = [[b43]]=\nDNS = 8.8.8.8",
    "WireGuard peer": "[Peer]\nPresharedKey = [[b43]]=\nAllowedIPs = 0.0.0.0/0, ::/0",
    "Jenkins settings": "jenkins_passwd = '11[[x32]]'   # Dev Token",
    "CI variable": "- SAUCE_USERNAME=vitess\n- SAUCE_ACCESS_KEY=[[uuid]]",
    "dotted setting": "agora.app_certificate=[[x32]]",
}

PARAMS: Final = {
    "ThingsBoard provisioning": '{"deviceName": "DEVICE_NAME", "provisionDeviceKey": "[[a20]]", "provisionDeviceSecret": "[[a20]]"}',
    "TrueNAS over a socket": '{"id":"3286a508-a6ca-278a-c078-85b2b515d8d2", "msg":"method", "method":"auth.login_with_api_key", "params":["8-[[m64]]"]}',
    "Bitwarden state": '{"user_12345678-1234-1234-1234-123456789012_token_apiKeyClientSecret": "[[m30]]"}',
    "connection settings": '{"ApplicationServicesConnection": {"ServiceAddress": "https://services-dev.example.com", "AdminPassword": "[[Q]]"}}',
    "test settings": '{"cluster_name": "sfrp-cli-24", "vm_password": "[[P]]", "policy_path": "policy.json"}',
}

TABLES: Final = {
    "shaped": SHAPED,
    "named": NAMED,
    "shell": SHELL,
    "address": ADDRESSES,
    "line": LINES,
    "params": PARAMS,
}
