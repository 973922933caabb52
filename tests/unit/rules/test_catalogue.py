"""A catalogue of tools as one meets them, labelled before anybody saw how they are judged.

Names and descriptions are told from memory of what MCP servers and agent tool kits offer; they are in no data
that the rules were made on. What is known to come out wrong is listed: it may not grow.
"""

from typing import Final, NamedTuple

import pytest

from callosum.model import Call, Classification
from callosum.rules import RuleSet

RULES = RuleSet.parse(secret=b"secret")

TABLE: Final = """
# Slack
slack_list_channels | r | List public or pre-defined channels in the workspace with pagination
slack_post_message | w 2 | Post a new message to a Slack channel
slack_reply_to_thread | w 23 | Reply to a specific message thread in Slack
slack_add_reaction | w 12 | Add a reaction emoji to a message
slack_get_channel_history | r | Get recent messages from a channel
slack_get_thread_replies | r | Get all replies in a message thread
slack_get_user_profile | r | Get detailed profile information for a specific user
conversations_history | r | Get messages from the channel (or DM) by channel_id
conversations_replies | r | Get a thread of messages posted to a conversation
conversations_add_message | w 2 | Add a message to a public channel, private channel, or direct message conversation
conversations_search_messages | r | Search messages in a public channel, private channel, or direct message
channels_list | r | Get list of channels
conversations_mark | w 12 | Sets the read cursor in a channel
# Linear
list_my_issues | r | List issues assigned to the current user
get_issue_status | r | Retrieve detailed information about an issue status in Linear by name or ID
list_issue_statuses | r | List available issues statuses in a Linear team
create_issue_label | w 12 | Create a new Linear issue label
linear_bulk_update_issues | w 12 | Update multiple issues at once
linear_getViewer | r | Get information about the currently authenticated user
linear_createComment | w 2 | Add a comment to an issue
linear_subscribeToIssue | w 12 | Subscribe to issue updates
linear_convertIssueToSubtask | w 12 | Convert an issue to a subtask
# Atlassian
jira_search | r | Search Jira issues using JQL (Jira Query Language).
jira_transition_issue | w 123 | Transition a Jira issue to a new status.
jira_get_transitions | r | Get available status transitions for a Jira issue.
jira_add_worklog | w 1 | Add a worklog entry to a Jira issue.
jira_get_worklog | r | Get worklog entries for a Jira issue.
jira_batch_create_issues | w 12 | Create multiple Jira issues in a batch.
jira_delete_issue | w 4 | Delete an existing Jira issue.
jira_link_to_epic | w 1 | Link an existing issue to an epic.
jira_batch_get_changelogs | r | Get changelogs for multiple Jira issues (Cloud only).
confluence_get_page_children | r | Get child pages and folders of a specific Confluence page.
confluence_add_comment | w 2 | Add a comment to a Confluence page.
confluence_delete_page | w 4 | Delete an existing Confluence page.
editJiraIssue | w 12 | Update the details of an existing Jira issue id or key.
lookupJiraAccountId | r | Lookup account ids of existing users in Jira based on the user's display name or email address.
searchJiraIssuesUsingJql | r | Search Jira issues using Jira Query Language (JQL).
getAccessibleAtlassianResources | r | Get cloudid to construct API calls to Atlassian REST APIs
atlassianUserInfo | r | Get current user info from Atlassian
addCommentToJiraIssue | w 2 | Adds a comment to an existing Jira issue id or key.
# Stripe
create_customer | w 12 | This tool will create a customer in Stripe.
create_payment_link | w 134 | This tool will create a payment link in Stripe.
create_refund | w 4 | This tool will refund a payment intent in Stripe.
retrieve_balance | r | This tool will retrieve the balance from Stripe. It takes no input.
list_payment_intents | r | This tool will list payment intents in Stripe.
finalize_invoice | w 134 | This tool will finalize an invoice in Stripe.
cancel_subscription | w 4 | This tool will cancel a subscription in Stripe.
update_dispute | w 14 | When you receive a dispute, contacting your customer is always the best first step. If that doesn't work, you can submit evidence to help resolve the dispute in your favor.
search_stripe_documentation | r | This tool will take in a user question and search the Stripe documentation for relevant information
get_stripe_account_info | r | This will get the account info for the logged in Stripe account.
fetch_stripe_resources | r | Retrieve Stripe object details.
# Gmail
draft_email | w 1 | Draft a new email
read_email | r | Retrieves the content of a specific email
search_emails | r | Searches for emails using Gmail search syntax
modify_email | w 13 | Modifies email labels (move to different folders)
batch_delete_emails | w 4 | Permanently deletes multiple emails in batches
list_email_labels | r | Retrieves all available Gmail labels
download_attachment | w 1 | Downloads an email attachment to a specified location
GMAIL_FETCH_EMAILS | r | Fetches a list of email messages from a gmail account, supporting filtering, pagination, and optional full content retrieval.
GMAIL_REPLY_TO_THREAD | w 3 | Sends a reply within a specific gmail thread using the original thread's subject.
GMAIL_MOVE_TO_TRASH | w 1234 | Moves an existing, non-deleted email message to the trash for the specified user.
GMAIL_GET_CONTACTS | r | Fetches contacts (connections) for the authenticated google account.
GMAIL_SEND_DRAFT | w 3 | Sends the specified, existing draft to the recipients in the to, cc, and bcc headers.
users.messages.list | r | Lists the messages in the user's mailbox.
users.messages.batchModify | w 123 | Modifies the labels on the specified messages.
users.messages.untrash | w 123 | Removes the specified message from the trash.
users.watch | w 1 | Set up or update a push notification watch on the given user mailbox.
# Google Calendar
list-calendars | r | List all available calendars
get-freebusy | r | Query free/busy information for calendars. Note: Time range is limited to a maximum of 3 months between timeMin and timeMax.
respond-to-event | w 3 | Respond to a calendar event invitation with Accept, Decline, Maybe (Tentative), or No Response.
list-colors | r | List available color IDs and their meanings for calendar events
update-event | w 13 | Update an existing calendar event
find_my_free_time | r | Find free slots in the calendar of the signed-in user
events.quickAdd | w 3 | Creates an event based on a simple text string.
freebusy.query | r | Returns free/busy information for a set of calendars.
# Kubernetes
kubectl_get | r | Get or list Kubernetes resources by resource type, name, and optionally namespace
kubectl_describe | r | Describe Kubernetes resources by resource type, name, and optionally namespace
kubectl_apply | w 1234 | Apply a Kubernetes YAML manifest from a string or file
kubectl_delete | w 4 | Delete Kubernetes resources by resource type, name, labels, or from a manifest file
kubectl_scale | w 13 | Scale a Kubernetes deployment
kubectl_rollout | w 13 | Manage the rollout of a resource (e.g., deployment, daemonset, statefulset)
kubectl_logs | r | Get logs from Kubernetes resources like pods, deployments, or jobs
explain_resource | r | Get documentation for a Kubernetes resource or field
list_api_resources | r | List the API resources available in the cluster
port_forward | w 12 | Forward a local port to a port on a Kubernetes resource
exec_in_pod | w 1234 | Execute a command in a Kubernetes pod or container and return the output.
uninstall_helm_chart | w 34 | Uninstall a Helm chart release
pods_log | r | Get the logs of a Kubernetes Pod in the current or provided namespace with the provided name
pods_exec | w 1234 | Execute a command in a Kubernetes Pod in the current or provided namespace with the provided name and command
pods_run | w 13 | Run a Kubernetes Pod in the current or provided namespace with the provided container image and optional name
pods_top | r | List the resource consumption (CPU and memory) as recorded by the Kubernetes Metrics Server for the specified Kubernetes Pods
resources_create_or_update | w 13 | Create or update a Kubernetes resource in the current cluster by providing a YAML or JSON representation of the resource
configuration_view | r | Get the current Kubernetes configuration content as a kubeconfig YAML
# Docker
run_container | w 13 | Run an image in a new Docker container (preferred over create_container + start_container)
recreate_container | w 134 | Stop and remove a container, then run a new container. Fails if the container does not exist.
fetch_container_logs | r | Fetch logs for a Docker container
pull_image | w 1 | Pull a Docker image
push_image | w 123 | Push a Docker image
remove_volume | w 34 | Remove a Docker volume
prune_system | w 4 | Removes all unused containers, networks and images
containers/inspect | r | Return low-level information about a container.
checkRepository | r | Check if a repository exists in the given namespace
# Postgres, SQLite, warehouses
list_schemas | r | List all schemas in the database
explain_query | r | Explains the execution plan for a SQL query, showing how the database will execute it and provides detailed cost estimates.
analyze_db_health | r | Analyzes database health. Here are the available health checks: index, connection, vacuum, sequence, replication, buffer, constraint
analyze_workload_indexes | r | Analyze frequently executed queries in the database and recommend optimal indexes
get_top_queries | r | Reports the slowest or most resource-intensive queries using data from the pg_stat_statements extension.
pg_execute_mutation | w 1 | Execute data modification operations (INSERT/UPDATE/DELETE/UPSERT) with parameterized queries
read_query | r | Execute a SELECT query on the SQLite database
write_query | w 1 | Execute an INSERT, UPDATE, or DELETE query on the SQLite database
append_insight | w 1 | Add a business insight to the memo
describe_table | r | Get the schema information for a specific table
drop_table | w 4 | Drop a table from the database
read_neo4j_cypher | r | Execute a read Cypher query on the neo4j database.
write_neo4j_cypher | w 1 | Execute a write Cypher query on the neo4j database.
execute_log_insights_query | rw | Executes a CloudWatch Logs Insights query and waits for the results to be available.
# Redis
hset | w 1 | Set a field in a hash stored at key with an optional expiration time.
hget | r | Get the value of a field in a Redis hash.
hgetall | r | Get all fields and values from a Redis hash.
hexists | r | Check if a field exists in a Redis hash.
lpush | w 1 | Push a value onto the left of a Redis list and optionally set an expiration time.
rpop | w 1 | Remove and return the last element from a Redis list.
lrange | r | Get elements from a Redis list within a specific range.
zadd | w 1 | Add a member to a Redis sorted set with an optional expiration time.
zrange | r | Retrieve a range of members from a Redis sorted set.
sadd | w 1 | Add a value to a Redis set with an optional expiration time.
smembers | r | Get all members of a Redis set.
expire | w 1 | Set an expiration time for a Redis key.
dbsize | r | Get the number of keys stored in the Redis database
client_list | r | Get a list of connected clients to the Redis server.
json_set | w 1 | Set a JSON value in Redis at a given path with an optional expiration time.
json_get | r | Retrieve a JSON value from Redis at a given path.
vector_search_hash | r | Perform a KNN vector similarity search using Redis 8 or later version on vectors stored in hash data structures.
create_vector_index_hash | w 1 | Create a Redis vector similarity index on hashes.
xadd | w 1 | Add an entry to a Redis stream with an optional expiration time.
flushall | w 4 | Remove all keys from all databases.
incr | w 1 | Increments the number stored at key by one.
# Cloudflare
workers_list | r | List all Workers in your Cloudflare account.
workers_get_worker_code | r | Get the source code of a Cloudflare Worker
kv_namespace_create | w 12 | Create a new kv namespace in your Cloudflare account
r2_bucket_delete | w 4 | Delete an R2 bucket
d1_database_query | rw | Query a D1 database in your Cloudflare account
hyperdrive_config_edit | w 14 | Edit (patch) a Hyperdrive configuration in your Cloudflare account
accounts_list | r | List all accounts in your Cloudflare account
set_active_account | w 1 | Set active account to be used for tool calls that require accountId
container_file_write | w 1 | Write file contents to the sandbox container
container_exec | w 1234 | Run a command in a container and return the results from stdout.
get_url_markdown | r | Get page content as Markdown
zone_purge_cache | w 14 | Purges everything from the zone's cache.
# Sentry
find_organizations | r | Find organizations that the user has access to in Sentry.
get_issue_details | r | Get detailed information about a specific Sentry issue by ID.
create_dsn | w 1 | Create an additional DSN for an EXISTING project.
analyze_issue_with_seer | rw | Use Seer to analyze production errors and get detailed root cause analysis with specific code fixes.
search_events | r | Search for events AND perform counts/aggregations - the ONLY tool for statistics and counts.
get_trace_details | r | Get detailed information about a specific Sentry trace by ID.
# Grafana
search_dashboards | r | Search for Grafana dashboards by a query string.
update_dashboard | w 1 | Create or update a dashboard
query_prometheus | r | Query Prometheus using a PromQL expression.
query_loki_logs | r | Executes a LogQL query against a Loki datasource to retrieve log entries or metric values.
list_prometheus_metric_names | r | List metric names in a Prometheus datasource.
create_incident | w 123 | Create a new Grafana incident.
add_activity_to_incident | w 12 | Add a note (userNote activity) to an existing incident's timeline using its ID.
get_current_oncall_users | r | Get the list of users currently on-call for a specific Grafana OnCall schedule ID.
find_error_pattern_logs | r | Searches Loki logs for elevated error patterns compared to the last day's average, waits for the analysis to complete, and returns the results including any patterns found.
generate_deeplink | r | Generate deeplink URLs for Grafana resources.
patch_annotation | w 1 | Updates only the provided properties of an annotation.
# Home Assistant
HassTurnOn | w 1 | Turns on/opens/presses a device or entity
HassTurnOff | w 1 | Turns off/closes a device or entity
HassLightSet | w 1 | Sets the brightness percentage or color of a light
HassSetVolumeRelative | w 1 | Increases or decreases volume
HassMediaPause | w 1 | Pauses a media player
HassCancelAllTimers | w 13 | Cancels all timers
HassVacuumReturnToBase | w 13 | Returns vacuum to base
HassBroadcast | w 2 | Broadcast a message through the home
HassListAddItem | w 1 | Add item to a todo list
GetLiveContext | r | Provides real-time information about the CURRENT state, value, or mode of devices, sensors, entities, or areas.
get_entity_state | r | Get the current state of a specific entity
control_light | w 1 | Control a light: turn it on or off, set brightness and colour
call_service | w 13 | Call any Home Assistant service (low-level API access)
# Spotify
getNowPlaying | r | Get information about the currently playing track on Spotify
playMusic | w 1 | Start playing a Spotify track, album, artist, or playlist
pausePlayback | w 1 | Pause Spotify playback on the active device
skipToNext | w 1 | Skip to the next track in the current Spotify playback queue
addToQueue | w 1 | Adds a track, album, artist or playlist to the playback queue
getMyPlaylists | r | Get a list of the current user's playlists on Spotify
getRecentlyPlayed | r | Get a list of recently played tracks on Spotify
adjustVolume | w 1 | Adjust the playback volume up or down by a relative amount
checkUsersSavedAlbums | r | Check if albums are saved in the user's library
# Figma
get_figma_data | r | Get comprehensive Figma file data including layout, content, visuals, and component information
download_figma_images | w 1 | Download SVG and PNG images used in a Figma file based on the IDs of image or icon nodes
get_variable_defs | r | Get a reference to the variables of the selected node
set_fill_color | w 1 | Set the fill color of a node in Figma
scan_text_nodes | r | Scan all text nodes in the selected Figma node
read_my_design | r | Get detailed information about the current selection in Figma, including all node details
clone_node | w 1 | Clone an existing node in Figma
join_channel | w 12 | Join a specific channel to communicate with Figma
get_code_connect_map | r | Get a mapping of Figma node IDs to code components
set_text_content | w 1 | Set the text content of an existing text node in Figma
set_selections | w 1 | Set selection to multiple nodes and scroll viewport to show them
# Twilio, ElevenLabs
TwilioApiV2010--FetchBalance | r | Fetch the balance for an Account.
TwilioApiV2010--CreateMessage | w 23 | Send a message from the account used to make the request
TwilioApiV2010--DeleteRecording | w 4 | Delete a recording from your account
TwilioApiV2010--ListCall | r | Retrieves a collection of calls made to and from your account
send_sms | w 23 | Send a text message to a phone number
make_outbound_call | w 3 | Make an outbound call using an ElevenLabs agent. Automatically detects provider type (Twilio or SIP trunk).
text_to_speech | w 1 | Convert text to speech with a given voice. Saves output file to directory (default: $HOME/Desktop).
check_subscription | r | Check the current status of the user's subscription.
voice_clone | w 1 | Create an instant voice clone of a voice using provided audio files.
list_models | r | List all available models.
play_audio | w 1 | Play an audio file. Supports WAV and MP3 formats.
# HubSpot, Salesforce
hubspot-list-objects | r | Retrieves a paginated list of objects of a specified type from HubSpot.
hubspot-batch-create-objects | w 1 | Creates multiple HubSpot objects of the same objectType in a single API call.
hubspot-search-objects | r | Performs advanced filtered searches across HubSpot object types using complex criteria.
hubspot-get-user-details | r | Authenticates and analyzes the current HubSpot access token, providing context about the user's permissions and account details.
hubspot-create-engagement | w 12 | Creates a HubSpot engagement (Note or Task) associated with contacts, companies, deals, or tickets.
hubspot-get-association-definitions | r | Retrieves valid association types between specific HubSpot object types.
salesforce_query_records | r | Query records from any Salesforce object using SOQL, including relationship queries.
salesforce_dml_records | w 14 | Perform data manipulation operations on Salesforce records: insert, update, delete or upsert
salesforce_describe_object | r | Get detailed schema metadata including all fields, relationships, and field properties of any Salesforce object.
salesforce_manage_field_permissions | w 4 | Manage Field Level Security (Field Permissions) for custom and standard fields.
salesforce_search_all | r | Search across multiple Salesforce objects using SOSL (Salesforce Object Search Language).
salesforce_execute_anonymous | w 1 | Execute anonymous Apex code in Salesforce.
salesforce_read_apex | r | Read Apex classes from Salesforce.
salesforce_aggregate_query | r | Execute SOQL queries with GROUP BY, aggregate functions, and statistical analysis.
run_soql_query | r | Run a SOQL query against a Salesforce org.
deploy_metadata | w 3 | Deploy metadata to an org from your local project.
assign_permission_set | w 4 | Assign a permission set to one or more org users.
list_all_orgs | r | Lists all configured Salesforce orgs.
# Shopify, PayPal, Xero, trading
get-products | r | Get all products or search by title
updateProduct | w 1 | Update an existing product
delete-product-variants | w 4 | Delete one or more variants of a product
learn_shopify_api | r | Teaches the LLM about a Shopify API and how to use this tool to generate valid code blocks
search_docs_chunks | r | This tool will take in the user prompt, search shopify.dev, and return relevant documentation
introspect_graphql_schema | r | This tool introspects and returns the portion of the Shopify Admin API GraphQL schema relevant to the user prompt.
validate_graphql_codeblocks | r | Validates GraphQL code blocks against the Shopify GraphQL schema to ensure they don't contain hallucinated fields or operations.
pay_order | w 4 | Capture payment for an authorized order.
send_invoice | w 34 | Send an existing invoice to the recipient.
accept_dispute_claim | w 34 | Accept liability for a dispute claim
list_transactions | r | List transactions with optional filters and pagination.
get_merchant_insights | r | Retrieve business intelligence metrics and analytics for a merchant.
list-profit-and-loss | r | Lists profit and loss report in Xero.
approve-timesheet | w 3 | Approve a payroll timesheet in Xero by its ID.
revert-timesheet | w 1 | Revert a payroll timesheet to draft in Xero.
place_stock_order | w 34 | Places an order to buy or sell a stock.
close_all_positions | w 134 | Closes all open positions.
get_stock_quote | r | Retrieves and formats the latest quote for a stock.
# Browsers
browser_get_state | r | Get the current state of the page including all interactive elements
browser_extract_content | r | Extract structured content from the current page based on a query
browser_go_back | w 1 | Go back to the previous page
browser_switch_tab | w 1 | Switch to a different tab
puppeteer_evaluate | w 1 | Execute JavaScript in the browser console
puppeteer_select | w 1 | Select an element on the page with Select tag
go_to_url | w 1 | Navigate to URL in the current tab
input_text | w 1 | Click and input text into an input interactive element
send_keys | w 12 | Send strings of special keys like Escape, Backspace, Insert, PageDown, Delete, Enter
scroll_down | w 1 | Scroll down the page by pixel amount
stagehand_act | w 1 | Performs an action on a web page element.
stagehand_observe | r | Observes elements on the web page.
get_dropdown_options | r | Get all options from a native dropdown
solve_captcha | w 1 | Solve the captcha shown on the current page
# GitLab, CI, cloud
merge_merge_request | w 3 | Merge a merge request in a GitLab project
get_merge_request_diffs | r | Get the changes/diffs of a merge request
mr_discussions | r | List discussion items for a merge request
play_pipeline_job | w 13 | Run a manual pipeline job
retry_pipeline | w 13 | Retry a failed or canceled pipeline
triggerBuild | w 13 | Trigger a build for a Jenkins job
getBuildLog | r | Retrieve some log lines with pagination for a specific build of a Jenkins job
sync_application | w 13 | Syncs an ArgoCD application with its source
get_application_resource_tree | r | Returns the resource tree of an application
run_resource_action | w 13 | Runs an action on a resource
call_aws | w 1 | Execute AWS CLI commands with validation and proper error handling.
suggest_aws_commands | r | Suggest AWS CLI commands based on a natural language query.
describe_log_groups | r | Lists AWS CloudWatch log groups and saved queries associated with them, optionally filtering by a name prefix.
get_active_alarms | r | Gets all CloudWatch alarms currently in ALARM state.
deploy_container_image | w 3 | Deploys a container image to Cloud Run.
ps_restart | w 13 | Restart specific processes or process types of a Heroku app
pg_kill | w 134 | Terminate a database process by PID
maintenance_on | w 13 | Enable maintenance mode for Heroku apps
transfer_app | w 234 | Transfer ownership of Heroku app to another user or team
pipelines_promote | w 3 | Promote apps between pipeline stages
resolveProviderDocID | r | Resolves the documentation id of a Terraform provider resource
apply_run | w 13 | Applies a Terraform run that is waiting for confirmation
apply_migration | w 13 | Applies a migration to the database. Use this when executing DDL operations.
get_advisors | r | Gets a list of advisory notices for the Supabase project.
generate_typescript_types | r | Generates TypeScript types for a project.
pause_project | w 13 | Pauses a Supabase project.
reset_branch | w 134 | Resets migrations of a development branch. Any untracked data or schema changes will be lost.
rebase_branch | w 13 | Rebases a development branch on production.
confirm_cost | rw | Ask the user to confirm their understanding of the cost of creating a new project or branch.
get_anon_key | r | Gets the anonymous API key for a project.
prepare_database_migration | w 13 | Performs a database migration on a temporary branch and waits for approval
provision_neon_auth | w 134 | Provisions authentication for a Neon project.
compare_database_schema | r | Compares the schema of a database with that of its parent branch
check_domain_availability_and_price | r | Check if domain names are available for purchase and get pricing information.
web_fetch_vercel_url | r | Fetches a Vercel deployment URL and returns its response
buy_domain | w 4 | Purchases a domain name for the team
# Incidents, monitoring, flags
manage_incidents | w 1 | Updates one or more incidents with new status, assignment, urgency or escalation level
get_oncalls | r | Lists the on-call entries of schedules during a time range
add_responders | w 123 | Adds responders to an incident
create_schedule_override | w 13 | Creates an override for a schedule
search_datadog_logs | r | Searches logs in Datadog by a query
schedule_downtime | w 3 | Schedules a downtime for a monitor
mute_host | w 13 | Mutes all alerts of a host
toggle_feature_flag | w 1 | Turns a feature flag on or off in an environment
feature-flag-get-all | r | Get all feature flags in the current project
query-run | r | Run a trend, funnel or HogQL query
switch-project | w 1 | Change the active project from the default project.
insight-create-from-query | w 1 | Save a query as an insight
change_sonar_issue_status | w 12 | Change the status of a SonarQube issue to accept, falsepositive or reopen
analyze_code_snippet | r | Analyze a code snippet with SonarQube analyzers to find code quality and security issues.
# Trackers and boards
asana_typeahead_search | r | Search for objects in a workspace by name as one types
asana_create_task_story | w 12 | Create a comment or story on a task
asana_get_task_stories | r | Get comments and stories for a specific task
asana_set_parent_for_task | w 1 | Set the parent of a task and position the subtask
get_cards_by_list_id | r | Fetch cards from a specific Trello list
move_card | w 1 | Move a card to a different list
archive_card | w 13 | Send a card to the archive
attach_image_to_card | w 1 | Attach an image to a card from a URL
change_item_column_values | w 1 | Change the column values of an item in a monday.com board
create_update | w 12 | Create a new update in a monday.com board
get_board_items_by_name | r | Get items by term from a monday.com board
all_monday_api | w 1 | Execute any monday.com API operation by generating GraphQL queries and mutations dynamically.
start_time_tracking | w 1 | Start time tracking on a task
get_workspace_hierarchy | r | Gets the full workspace hierarchy with spaces, folders and lists
complete-tasks | w 1 | Complete one or more tasks by their IDs.
find-completed-tasks | r | Get completed tasks in a date range
user-info | r | Get comprehensive user information including user ID, full name, email, and timezone
get-overview | r | Get a Markdown overview of a project or of all projects
postpone_task | w 1 | Moves a task's due date to a later day
# Chat
discord_read_messages | r | Retrieves messages from a Discord text channel with a configurable limit
discord_send | w 2 | Sends a message to a specified Discord text channel
discord_login | w 1 | Logs in to Discord using the configured token
mark_as_read | w 1 | Mark all messages in a chat as read
ban_user | w 34 | Ban a user from a group or channel
leave_chat | w 12 | Leave a group or channel by chat ID
list_chats | r | Get WhatsApp chats matching specified criteria
get_last_interaction | r | Get most recent WhatsApp message involving the contact
send_audio_message | w 23 | Send any audio file as a WhatsApp audio message to the specified recipient
download_media | w 1 | Download media from a WhatsApp message and get the local file path
approve_chat_join_request | w 3 | Approves a user's request to join a chat
block_contact | w 1 | Blocks a contact from sending messages
export_chat_invite | w 134 | Generates a new invite link for a chat; the old one stops working
# Documents and files
obsidian_append_content | w 1 | Append content to a new or existing file in the vault.
obsidian_patch_content | w 1 | Insert content into an existing note relative to a heading, block reference, or frontmatter field.
obsidian_simple_search | r | Simple search for documents matching a specified text query across all files in the vault.
obsidian_batch_get_file_contents | r | Return the contents of multiple files in your vault, concatenated with headers.
obsidian_complex_search | r | Complex search for documents using a JsonLogic query.
list_recent_files | r | Lists recently modified files in Google Drive
share_spreadsheet | w 234 | Share a Google Spreadsheet with multiple users via email, assigning specific roles.
batch_update_cells | w 1 | Batch update multiple ranges in a Google Spreadsheet.
get_multiple_spreadsheet_summary | r | Get a summary of multiple Google Spreadsheets, including sheet names, headers, and the first few rows
get_file_permissions | r | Gets the sharing permissions of a file
empty_trash | w 4 | Permanently deletes all of the user's trashed files.
box_ai_ask_file | r | Ask a question about a file in Box using its AI
files.copy | w 1 | Creates a copy of a file and applies any requested updates
permissions.create | w 4 | Creates a permission for a file or shared drive.
sites_publish | w 23 | Publish a site to one or more domains
collections_items_create_item_live | w 12 | Create and publish new items in a collection directly to the live site.
wp_posts_search | r | Search and filter WordPress posts with pagination
search_records | r | Search for records containing specific text
describe_base | r | Describes the tables and fields of a base
move_page | w 1 | Moves a page under another parent
restore_page_version | w 1 | Restores an earlier version of a page
# Vectors, memory, search, models
qdrant-store | w 1 | Store some information in the Qdrant database
qdrant-find | r | Look up memories in Qdrant.
chroma_peek_collection | r | Peek at documents in a Chroma collection.
chroma_fork_collection | w 1 | Fork a Chroma collection.
chroma_query_documents | r | Query documents from a Chroma collection with advanced filtering.
rerank-documents | r | Rerank a collection of records or text documents using a specialized reranking model.
upsert-records | w 1 | Insert or update records in a Pinecone index
describe-index-stats | r | Get statistics about a Pinecone index
esql | r | Perform an ES|QL query against Elasticsearch.
get_shards | r | Get shard information for all or specific indices.
delete_all_memories | w 4 | Deletes all memories of the user
add_memories | w 1 | Add new memories. Called whenever the user informs anything about themselves or their preferences.
tavily-extract | r | A powerful web content extraction tool that retrieves and processes raw content from specified URLs
firecrawl_map | r | Map a website to discover all indexed URLs on the site.
firecrawl_check_crawl_status | r | Check the status of a crawl job.
get_code_context_exa | r | Search and get relevant context for any programming task.
perplexity_ask | r | Engages in a conversation using the Sonar API and returns its answer
ask_question | r | Ask any question about a GitHub repository and get an AI-powered response
read_wiki_structure | r | Get a list of documentation topics for a GitHub repository
get-library-docs | r | Fetches up-to-date documentation for a library.
maps_geocode | r | Convert an address into geographic coordinates
maps_distance_matrix | r | Calculate travel distance and time for multiple origins and destinations
maps_elevation | r | Get elevation data for locations on the earth
model_search | r | Find machine learning models hosted on Hugging Face.
call-actor | w 1 | Call any Actor from the Apify Store and get the results of its run
fetch-actor-details | r | Get detailed information about an Actor by its ID or full name
cancel_prediction | w 34 | Cancels a prediction that is still running
sequentialthinking | r | A detailed tool for dynamic and reflective problem-solving through thoughts.
convert_time | r | Convert time between timezones
search_papers | r | Search for papers on arXiv with advanced filtering
download_paper | w 1 | Download a paper and create a resource for it
airbnb_search | r | Search for Airbnb listings with various filters and pagination.
airbnb_listing_details | r | Get detailed information about a specific Airbnb listing.
# Code and desktop
start_process | w 1 | Start a new terminal process with intelligent state detection.
interact_with_process | w 12 | Send input to a running process and automatically receive the response.
read_process_output | r | Read output from a running process with intelligent completion detection.
force_terminate | w 4 | Force terminate a running terminal session.
edit_block | w 1 | Apply surgical edits to files.
get_more_search_results | r | Get more results from an active search with offset-based pagination.
give_feedback_to_desktop_commander | w 12 | Open feedback form in browser to provide feedback about Desktop Commander.
find_referencing_symbols | r | Finds symbols that reference the given symbol
replace_symbol_body | w 1 | Replaces the full definition of a symbol.
insert_after_symbol | w 1 | Inserts content after the end of the definition of a given symbol
think_about_task_adherence | r | Thinking tool for determining whether the agent is still on track with the current task.
get_symbols_overview | r | Gets an overview of the top-level symbols defined in a given file.
onboarding | rw | Performs onboarding (identifying the project structure and essential tasks, e.g. for testing or building).
execute_blender_code | w 1 | Execute arbitrary Python code in Blender.
get_viewport_screenshot | r | Capture a screenshot of the current Blender 3D viewport.
set_texture | w 1 | Apply a previously downloaded texture to an object.
launch_editor | w 1 | Launch the editor for a specific project
get_debug_output | r | Get the current debug output and errors
boot_sim | w 1 | Boots an iOS simulator.
describe_ui | r | Gets the entire view hierarchy with precise frame coordinates for all visible elements.
discover_projs | r | Scans a directory to find Xcode project and workspace files.
mobile_list_available_devices | r | List all available devices.
mobile_swipe_on_screen | w 1 | Swipe on the screen
mobile_get_orientation | r | Get the current screen orientation of the device
mobile_launch_app | w 1 | Launch an app on mobile device.
lsp.hover | r | Shows type and documentation of the symbol at a position
debugger_step_over | w 1 | Steps over the current line of the paused program
set_breakpoint | w 1 | Sets a breakpoint at a line of a file
# Automation, queues, misc
n8n_trigger_webhook_workflow | w 1 | Trigger a workflow via its webhook.
n8n_validate_workflow | r | Validate a workflow from an n8n instance by its ID.
n8n_health_check | r | Check the health of an n8n instance and its API connectivity
n8n_autofix_workflow | w 1 | Automatically fix common workflow validation errors
get_node_essentials | r | Get only the 10-20 most important properties of a node
google_sheets_create_spreadsheet_row | w 1 | Create a new row in a specific spreadsheet
google_calendar_quick_add_event | w 3 | Create an event from a piece of text
produce_messages | w 12 | Produces messages to a Kafka topic
consume_messages | rw | Reads messages from a Kafka topic
list_topics | r | Lists the topics of a Kafka cluster
purge_queue | w 4 | Removes all messages from a queue
ack_message | w 12 | Acknowledges a message so that it is not delivered again
book_flight | w 3 | Books a flight for the given passengers
get_booking_details | r | Shows the details of a booking
request_refund | w 4 | Requests a refund for a booking
rotate_api_key | w 34 | Rotates an API key; the old one is revoked
grant_access | w 4 | Grants a user access to a resource
list_access_grants | r | Lists who has access to a resource
reset_password | w 4 | Sends a link to reset the user's password
check_in_guest | w 13 | Checks a guest in
open_garage_door | w 1 | Opens the garage door
unlock_door | w 134 | Unlocks a smart lock
snooze_reminder | w 1 | Snoozes a reminder by some minutes
log_meal | w 1 | Logs a meal with its calories
log_entry_search | r | Searches the entries of the log
record_expense | w 134 | Records an expense in the ledger
post_journal_entry | w 123 | Posts a journal entry to the general ledger
post_search_results | r | Returns the posts that match a search
order_history | r | Shows past orders of a customer
run_report | r | Runs a report and returns its rows
run_pipeline | w 13 | Runs a pipeline
check_grammar | r | Checks a text for mistakes of grammar
check_out_book | w 13 | Checks a book out of the library
is_holiday | r | Tells whether a date is a public holiday
whois_lookup | r | Looks up who owns a domain
weather.forecast.daily | r | Daily forecast for a place
translate_text | r | Translates a text into another language
summarize_thread | r | Summarises the messages of a thread
generate_report_pdf | w 1 | Generates a PDF and stores it in the document folder
render_template | r | Renders a template with the given values and returns the text
watch_repository | w 1 | Watches a repository so that you get notified
poll_job_status | r | Polls the status of a job
create_poll | w 12 | Creates a poll in a channel
vote_on_poll | w 1 | Casts a vote on a poll
# One of each of many servers
createAppointment | w 3 | Creates an appointment in a client's calendar
zoom_list_meetings | r | Lists the meetings of a user
zoom_end_meeting | w | Ends a meeting that is running
teams.sendChannelMessage | w 2 | Sends a message to a Teams channel
outlook_move_message | w | Moves a message to another folder
onenote_get_page_content | r | Gets the HTML of a page
dropbox_shared_link_create | w | Creates a shared link of a file
dropbox_list_revisions | r | Lists the revisions of a file
evernote-search-notes | r | Searches notes by a query
miro_create_sticky_note | w 1 | Creates a sticky note on a board
canva_export_design | w | Exports a design to a file format
airtable.bases.schema | r | Returns the schema of a base
zendesk_update_ticket | w | Updates a ticket's fields
intercom_snooze_conversation | w | Snoozes a conversation until a time
freshdesk_view_ticket | r | Shows a ticket
shopify_cancel_order | w 34 | Cancels an order and restocks its items
shopify_count_products | r | Counts products
woocommerce_batch_products | w | Creates, updates and deletes products
plaid_accounts_balance_get | r | Fetches real-time balances of accounts
coinbase_market_order | w 34 | Places a market order
binance_ticker_price | r | Latest price of a symbol
etherscan_contract_abi | r | Returns the ABI of a contract
uniswap_quote | r | Quotes a swap without executing it
wise_fund_transfer | w 4 | Funds a transfer from a balance
quickbooks_void_invoice | w 34 | Voids an invoice
gusto_run_payroll | w 4 | Runs the payroll of a period
bamboohr_time_off_requests | r | Lists requests for time off
workday_approve_time_off | w 3 | Approves a request for time off
greenhouse_advance_candidate | w | Moves a candidate to the next stage
calendly_list_event_types | r | Lists the event types of a user
doordash_estimate_delivery | r | Estimates the fee and time of a delivery
uber_request_ride | w | Requests a ride
tesla_wake_up | w | Wakes up the vehicle
tesla_vehicle_data | r | Returns the data of the vehicle
nest_set_temperature | w 1 | Sets the target temperature
hue_scene_activate | w 1 | Activates a scene
sonos_now_playing | r | What is playing in a room
roku_launch_channel | w 12 | Launches a channel
fitbit_log_weight | w 1 | Logs a weight
strava_segment_leaderboard | r | Leaderboard of a segment
youtube_transcript | r | Gets the transcript of a video
youtube_rate_video | w 1 | Likes or dislikes a video
reddit_submit_post | w 2 | Submits a post to a subreddit
reddit_hot_posts | r | Hot posts of a subreddit
bluesky_like | w 1 | Likes a post
mastodon_boost_status | w | Boosts a status
linkedin_profile_view | r | Shows a profile
ssh_execute | w | Executes a command on a remote host
ansible_playbook_run | w | Runs a playbook
vault_kv_get | r | Reads a secret
vault_seal | w | Seals the vault
consul_kv_put | w | Puts a value under a key
nomad_job_stop | w | Stops a job
rabbitmq_purge_queue | w 4 | Purges a queue
kafka_describe_group | r | Describes a consumer group
airflow_trigger_dag | w | Triggers a DAG
airflow_dag_runs | r | Lists the runs of a DAG
dbt_compile | rw | Compiles a model
dbt_run | w | Runs models
snowflake_list_warehouses | r | Lists warehouses
databricks_submit_run | w | Submits a run
mlflow_search_runs | r | Searches runs of an experiment
wandb_log_artifact | w | Logs an artifact
huggingface_upload_file | w | Uploads a file to a repository
openai_moderate_text | r | Checks a text against the policy
elevate_privileges | w | Elevates the privileges of the session
okta_deactivate_user | w | Deactivates a user
auth0_reset_mfa | w 4 | Resets the second factors of a user
splunk_search_oneshot | r | Runs a search and returns its results
newrelic_nrql_query | r | Runs an NRQL query
opsgenie_ack_alert | w 1 | Acknowledges an alert
statuspage_publish_incident | w | Publishes an incident
crowdstrike_contain_host | w | Contains a host
virustotal_lookup_hash | r | Looks up a file hash
shodan_host_info | r | Information about a host
nmap_scan | r | Scans ports of a host
wireguard_add_peer | w | Adds a peer
dns_propagation_check | r | Checks propagation of a record
route53_change_record | w | Changes a DNS record
s3_presign_url | r | Makes a URL that allows to download an object
ec2_terminate_instances | w 4 | Terminates instances
lambda_list_functions | r | Lists functions
gke_resize_cluster | w | Resizes a cluster
terraform_plan | rw | Plans changes
pulumi_destroy | w 4 | Destroys all resources of a stack
"""
"""Name, label, description. ``r``: only looks, ``w``: changes something, ``rw``: either may be said; then the tiers
that a careful reader would accept, one digit each."""


class Tool(NamedTuple):
    name: str
    effect: str
    tiers: str
    description: str


def _tools() -> list[Tool]:
    found = []
    for line in TABLE.strip().splitlines():
        if not line.startswith("#"):
            name, label, description = line.split(" | ", 2)
            effect, _, tiers = label.partition(" ")
            found.append(Tool(name, effect, tiers, description))
    return found


TOOLS: Final = _tools()


def judged(tool: Tool, *, described: bool = True) -> Classification:
    return RULES.classify(Call("a", tool.name, description=tool.description if described else None))


def wrong(label: str, *, described: bool) -> set[str]:
    said = {"r": "read", "w": "write"}[label]
    return {tool.name for tool in TOOLS if tool.effect == label and judged(tool, described=described).effect != said}


RAISED: Final = {
    # a verb of doing before what is only looked up
    "run_soql_query", "run_report", "post_search_results", "esql",
    # no verb that is known
    "firecrawl_map", "sequentialthinking", "uniswap_quote", "sonos_now_playing", "reddit_hot_posts", "s3_presign_url",
    "openai_moderate_text",
    # a verb of doing in another sense
    "lsp.hover",
}  # fmt: skip
"""Looks that are taken for writes."""
RAISED_BY_NAME: Final = {
    "conversations_replies", "pods_top", "learn_shopify_api", "mr_discussions", "maps_elevation", "airflow_dag_runs",
    "etherscan_contract_abi", "tesla_vehicle_data",
}  # fmt: skip
"""The same where no description tells."""
LOST_BY_NAME: Final = {"mastodon_boost_status"}
"""Writes that are taken for looks where no description tells."""
TIERS: Final = {"uninstall_helm_chart", "text_to_speech", "input_text", "call_aws", "wise_fund_transfer"}
"""Tools whose tier nobody would defend."""


def test_catalogue_is_large_and_has_reads_and_writes() -> None:
    labels = [tool.effect for tool in TOOLS]
    assert len({tool.name for tool in TOOLS}) == len(TOOLS)
    assert labels.count("r") > 200
    assert labels.count("w") > 200


def test_no_write_is_called_a_read() -> None:
    assert wrong("w", described=True) == set()
    assert wrong("w", described=False) <= LOST_BY_NAME


def test_only_known_reads_are_classified_as_writes() -> None:
    assert wrong("r", described=True) <= RAISED
    assert wrong("r", described=False) <= RAISED | RAISED_BY_NAME


def test_tiers_are_accepted() -> None:
    assert {tool.name for tool in TOOLS if tool.tiers and str(judged(tool).tier) not in tool.tiers} <= TIERS


@pytest.mark.parametrize("style", ["snake", "kebab", "dotted", "camel", "mcp", "upper"])
def test_spelling_does_not_matter(style: str) -> None:
    """The same words in another convention get the same effect."""
    for tool in TOOLS:
        parts = tool.name.replace("-", "_").replace(".", "_").split("_")
        if not tool.name.islower() or "/" in tool.name or "" in parts or any(not one.isalpha() for one in parts):
            continue
        name = {
            "snake": "_".join(parts),
            "kebab": "-".join(parts),
            "dotted": ".".join(parts),
            "camel": parts[0] + "".join(one.capitalize() for one in parts[1:]),
            "mcp": "mcp__server__" + "_".join(parts),
            "upper": "_".join(parts).upper(),
        }[style]
        assert judged(tool._replace(name=name)).effect == judged(tool).effect, name
