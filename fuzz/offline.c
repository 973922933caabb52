/* Judges the lines of standard input as the hook client does without a server: settings, table and payload, each behind
 * its length in a line. Prints 0, 1 or 2 (goes on, is refused, cannot be judged) in a line, and the refusal. */
#include "offline.h"

static int take(struct text *into) {
	size_t size;
	if (scanf("%zu", &size) != 1 || getchar() != '\n' || size > 1u << 24 || !make_room(into, size)) return 0;
	into->size = fread(into->data, 1, size, stdin), into->data[into->size] = 0;
	/* To the byte: the sanitizer sees a read beyond the end, but for the NUL. */
	char *data = realloc(into->data, into->size + 1);
	if (!data) return 0;
	into->data = data, into->room = into->size + 1;
	return into->size == size;
}

int main(void) {
	struct text part;
	for (;;) {
		struct text lines = {0}, tiers = {0}, payload = {0}, said = {0};
		if (!take(&lines)) return free(lines.data), 0;
		if (!take(&tiers) || !take(&payload)) return 1;
		if (!split_lines(&lines, "callosum-hook-remote 1")) lines.size = 0;
		if (!split_lines(&tiers, "callosum-tiers 1")) tiers.size = 0;
		int judged = decide(&lines, &tiers, &payload, &said);
		printf("%d %zu\n", judged, said.size);
		if (said.size) fwrite(said.data, 1, said.size, stdout);
		fflush(stdout);
		struct text *parts[] = {&lines, &tiers, &payload, &said};
		for (size_t at = 0; at < 4; at++) part = *parts[at], free(part.data);
	}
}
