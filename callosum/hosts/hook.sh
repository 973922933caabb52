#!/bin/sh@PRIVILEGED@
# The hook of Callosum. `hook HOST` asks the gate about a hook event of that host, which it reads from standard input.
# `hook HOST report` delivers an event whose answer nobody waits for, and `hook HOST here` asks about a file that only
# this machine can read. `callosum install` writes this script; edits are lost with the next installation.
#
# Asking needs no Python. If no gate answers in time, callosum.hosts.offline decides by the tier table and starts the
# gate. A tool call that nothing can decide does not run (exit code 2).
unset @DROPPED@ # they change what the programs below run
payload=$(@READ@)
target="/hooks/$1?@QUERY@"
seconds=@SECONDS@
can_ask() { # For a local gate: the rule in callosum/sockets.py, as far as a shell can check it without a process.
	@CAN@
}
is_hung() { # Return whether the gate recently did not answer in time. The file says until when it is not asked.
	[ -s @HUNG@ ] && { read -r until <@HUNG@ && @NOW@; } 2>/dev/null || return 1
	now=${now%%.*}
	case $until.$now in
	*[!0-9.]* | .* | *.) return 1 ;;
	esac
	[ $((until - now)) -gt 0 ] && [ $((until - now)) -le @HUNG_SECONDS@ ]
}
hand_over() {
	status=7 # the exit code of curl if nothing listens
	# The gate does not decide a call that curl no longer waits for. If the kernel names this boot, the
	# deadline holds even if the gate was stopped meanwhile. It is computed in hundredths of a second.
	limit="&timeoutMs=@MILLISECONDS@"
	if { read -r up _ </proc/uptime && read -r boot </proc/sys/kernel/random/boot_id; } 2>/dev/null; then
		up=$((${up%.*}${up#*.} + @MILLISECONDS@ / 10))
		limit="$limit&deadline=$boot:${up%??}.${up#"${up%??}"}"
	fi
	case $HOME in # only if it needs no encoding
	*[!A-Za-z0-9/._-]*) ;;
	/*) limit="$limit&home=$HOME" ;;
	esac
	if [ "$seconds" != @PATIENCE@ ] && is_hung; then
		status=@HUNG_STATUS@ # a report does not get here: nobody waits for it
	elif can_ask "$@"; then
		@TELL@
		answer=$(@CURL@ -q -s -w '\n%{http_code}' --noproxy '*' --max-time $seconds @WHERE@ -H 'Content-Type: application/json' --data-binary @- @BASE@"$target$limit" 2>/dev/null <<PAYLOAD@ALSO@
$payload
PAYLOAD
@SECRET@)
		status=$? code=${answer##*"
"}
		answer=${answer%"
"*}
		case $status$code in
		0200) ;;
		0[45]*) status="22 $code $answer" ;;
		0*) status=1 ;; # that was not a gate
		esac
	fi
	if [ "$status" = 0 ]; then
		case $answer in
		'{'*'}')
			[ "$answer" = '{}' ] || printf '%s\n' "$answer"
			[ -s @HUNG@ ] && true 2>/dev/null >@HUNG@ # not `:`, whose failure would end the shell
			@TEND@
			exit 0
			;;
		esac
		status=1 # that was not a gate
	fi
	printf '%s' "$payload" | @OFFLINE@ "$1" @STATE@ @SOCKET@ "$target" "$status" @PLACE@ @SERVER@ && exit 0
	case $payload in
	@ASKS@) ;;
	*hook_event_name*) exit 0 ;;
	esac
	echo "Callosum: neither the gate nor its tier table is available, so nothing runs. Fix it with \`callosum doctor\`, or remove the hooks with \`callosum uninstall $1\`." >&2
	exit 2
}
if [ "$2" = report ]; then # the host continues; its report arrives a moment later
	(
		trap '' HUP
		seconds=@PATIENCE@
		hand_over "$@"
	) </dev/null >/dev/null 2>&1 &
	exit 0
fi
hand_over "$@"
