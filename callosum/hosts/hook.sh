#!/bin/sh
# The hook of Callosum: `hook HOST` asks the gate about a hook event of that host, on standard input; `hook HOST report`
# hands over one whose answer nobody waits for, `hook HOST here` asks about a file that only this machine can look at.
# Written by `callosum install`, removed by `callosum uninstall`; a change here is lost with the next install.
#
# Asking takes no Python. Where no gate answers in time, callosum.hosts.offline judges by the tier table and starts
# the gate. What nobody can judge is not run (exit code 2), unless it is no call of a tool.
payload=$(cat)
target="/hooks/$1?@QUERY@"
seconds=@SECONDS@
hand_over() {
	status=7 # as curl says it: nobody listens
	if @CAN@; then
		answer=$(curl -q -s -f --noproxy '*' --max-time $seconds @WHERE@ -H 'Content-Type: application/json' --data-binary @- @BASE@"$target" 2>/dev/null <<PAYLOAD@ALSO@
$payload
PAYLOAD
@SECRET@)
		status=$?
	fi
	if [ $status = 0 ]; then
		case $answer in
		'{'*'}')
			[ "$answer" = '{}' ] || printf '%s\n' "$answer"
			@TEND@
			exit 0
			;;
		esac
		status=1 # whoever that was, it was no gate
	fi
	printf '%s' "$payload" | @PYTHON@ -I -S -c 'import sys; sys.path.insert(0, sys.argv.pop(1)); from callosum.hosts.offline import main; sys.exit(main(sys.argv[1:]))' @ROOT@ "$1" @STATE@ @SOCKET@ "$target" "$status" @PLACE@ @SERVER@ && exit 0
	case $payload in
	*PreToolUse* | *BeforeTool*) ;;
	*hook_event_name*) exit 0 ;;
	esac
	echo "Callosum: neither the gate nor its table could be asked, so nothing runs. Mend it with \`callosum doctor\`, or take the hooks out with \`callosum uninstall $1\`." >&2
	exit 2
}
if [ "$2" = report ]; then # the host goes on; what it tells arrives a moment later
	(
		trap '' HUP
		seconds=@PATIENCE@
		hand_over "$@"
	) </dev/null >/dev/null 2>&1 &
	exit 0
fi
hand_over "$@"
