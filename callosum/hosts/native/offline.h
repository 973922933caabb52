/* The decision of a hook client if nothing else can decide a call: by the tier table that `callosum install` wrote.
 *
 *     tool in the table with tier 0                   runs
 *     tier 1 or 2, no mention of the gate's files     runs
 *     anything else                                   is refused, in the host's format
 *
 * It is never more lenient than callosum.hosts.offline; the fuzzer compares them. It is stricter where that module
 * reads a command line or a path by the rules, which are Python: it refuses every shell, and every call that mentions
 * the gate's files. Plain C without system calls.
 */
#ifndef CALLOSUM_OFFLINE_H
#define CALLOSUM_OFFLINE_H

#include "client.h"

enum { GOES_ON, IS_REFUSED, NO_JUDGE };
enum { UNKNOWN_TIER = 3, HIGHEST_TIER = 4, SHOWN_NAME = 100 };

/* --- Lines ------------------------------------------------------------------------------------------------------ */

/* Return the value of the next line with this key behind `after` (NULL: of the first one), or NULL if there is none.
 * The lines were separated by `split_lines`. */
static const char *value_of(const struct text *lines, const char *key, const char *after) {
	const char *at = after ? after + strlen(after) + 1 : lines->data, *end = lines->data + lines->size;
	size_t length = strlen(key);
	for (; lines->size && at < end; at += strlen(at) + 1)
		if (!strncmp(at, key, length) && at[length] == ' ') return at + length + 1;
	return NULL;
}

/* End each line with a NUL. Returns whether the first line is `first` and no line contained a NUL before. */
static int split_lines(struct text *lines, const char *first) {
	if (!lines->size || memchr(lines->data, 0, lines->size)) return 0;
	for (size_t at = 0; at < lines->size; at++)
		if (lines->data[at] == '\n') lines->data[at] = 0;
	return !strcmp(lines->data, first);
}

/* --- The payload ------------------------------------------------------------------------------------------------ */

struct call {
	struct text event, tool, words; /* `words`: the texts of the input and the folder, in lower case */
	int named, raised;              /* whether the tool's name is a string; what its input raises the tier to */
};

/* Return the tier in the JSON of `_tier`: the higher one of two, 0 if it is not a number. */
static int said_tier(const char *json, size_t size) {
	struct reader reader = {json + 1, json + size, 0};
	struct text text = {0};
	int64_t found = 0;
	int tier = 0;
	if (*json == '-' || (*json >= '0' && *json <= '9')) {
		char digits_of[64]; /* the reader has checked them; a longer number is larger than any tier, or as small as its sign */
		if (size >= sizeof digits_of) return HIGHEST_TIER;
		memcpy(digits_of, json, size), digits_of[size] = 0;
		double value = strtod(digits_of, NULL);
		if (!(value >= 0)) return 0;
		if (value > HIGHEST_TIER) return HIGHEST_TIER;
		return (int)value + (value > (int)value);
	}
	if (*json != '"') return 0;
	if (!read_string(&reader, &text) || !append(&text, "", 0)) return free(text.data), HIGHEST_TIER;
	for (size_t at = 0; at < text.size; at++)
		if ((unsigned char)text.data[at] >= 0x80) tier = HIGHEST_TIER; /* perhaps digits of another script */
	char *from = text.data, *end = text.data + text.size;
	while (from < end && ((*from >= 9 && *from <= 13) || (*from >= 28 && *from <= 32))) from++;
	while (end > from && ((end[-1] >= 9 && end[-1] <= 13) || (end[-1] >= 28 && end[-1] <= 32))) end--;
	*end = 0;
	if (!tier && text.size <= 8 && strlen(from) == (size_t)(end - from) && number(from, 99999999, &found))
		tier = found > HIGHEST_TIER ? HIGHEST_TIER : (int)found;
	free(text.data);
	return tier;
}

static int is_word(const struct text *text, const char *word) {
	return text->size == strlen(word) && !memcmp(text->data, word, text->size);
}

/* Read an object from behind its first bracket: the payload, or with `inner` the input of its tool. */
static int read_members(struct reader *reader, struct call *call, int inner) {
	struct text key = {0};
	int good = 1;
	if (next_is(reader, '}')) return 1;
	do {
		key.size = 0;
		good = next_is(reader, '"') && append(&key, "", 0) && read_string(reader, &key) && next_is(reader, ':');
		if (!good) break;
		skip_space(reader);
		const char *from = reader->at;
		int quoted = from < reader->end && *from == '"', event = is_word(&key, "hook_event_name"), tool = is_word(&key, "tool_name");
		if (inner) {
			good = append(&call->words, key.data, key.size) && append(&call->words, "\n", 1) && read_value(reader, &call->words);
			int raised = good && is_word(&key, "_tier") ? said_tier(from, (size_t)(reader->at - from)) : 0;
			if (raised > call->raised) call->raised = raised;
		} else if (is_word(&key, "tool_input") && from < reader->end && *from == '{') {
			reader->at++, reader->depth++;
			good = read_members(reader, call, 1);
			reader->depth--;
		} else if (event || tool) { /* of two members with one name the last one counts */
			struct text *into = event ? &call->event : &call->tool;
			into->size = 0;
			if (tool) call->named = quoted;
			good = append(into, "", 0) && (quoted ? (reader->at++, read_string(reader, into)) : read_value(reader, NULL));
		} else {
			good = read_value(reader, is_word(&key, "cwd") || is_word(&key, "tool_input") ? &call->words : NULL);
		}
	} while (good && next_is(reader, ','));
	free(key.data);
	return good && next_is(reader, '}');
}

static int read_call(const struct text *payload, struct call *call) {
	struct reader reader = {payload->data, payload->data + payload->size, 0};
	if (!append(&call->event, "", 0) || !append(&call->tool, "", 0) || !append(&call->words, "", 0)) return 0;
	if (!payload->size || !is_utf8(payload->data, payload->size) || !next_is(&reader, '{') || !read_members(&reader, call, 0)) return 0;
	skip_space(&reader);
	for (size_t at = 0; at < call->words.size; at++)
		if (call->words.data[at] >= 'A' && call->words.data[at] <= 'Z') call->words.data[at] += 'a' - 'A';
	return reader.at == reader.end;
}

/* --- The decision ----------------------------------------------------------------------------------------------- */

/* Return the tier of a tool by the table's lines (`TIER NAME`), the highest if it has several. */
static int table_tier(const struct text *tiers, const struct text *tool) {
	int tier = -1;
	const char *end = tiers->data + tiers->size;
	for (const char *at = tiers->data; tiers->size && at < end; at += strlen(at) + 1)
		if (at[0] >= '0' && at[0] <= '0' + HIGHEST_TIER && at[1] == ' ' && is_word(tool, at + 2) && at[0] - '0' > tier)
			tier = at[0] - '0';
	return tier < 0 ? UNKNOWN_TIER : tier;
}

static int speaks_of_the_gate(const struct text *lines, const struct call *call) {
	for (const char *word = NULL; (word = value_of(lines, "guard", word));)
		if (contains(&call->words, word)) return 1;
	return 0;
}

/* Build the refusal from its form, in which the name replaces `@TOOL@`. Characters that JSON would escape become `?`.
 */
static int append_refusal(struct text *said, const char *form, const struct text *tool) {
	static const char place[] = "@TOOL@";
	const char *at = strstr(form, place);
	if (!at) return append(said, form, strlen(form));
	if (!append(said, form, (size_t)(at - form))) return 0;
	for (size_t shown = 0; shown < tool->size && shown < SHOWN_NAME; shown++) {
		unsigned char sign = (unsigned char)tool->data[shown];
		char plain = sign < 0x20 || sign >= 0x7f || sign == '"' || sign == '\\' ? '?' : (char)sign;
		if (!append(said, &plain, 1)) return 0;
	}
	return append(said, at + sizeof place - 1, strlen(at + sizeof place - 1));
}

/* Decide an event by the lines of the settings and the table, both split. The host's output is in `said`. */
static int decide(const struct text *lines, const struct text *tiers, const struct text *payload, struct text *said) {
	struct call call = {0};
	const char *before = value_of(lines, "before", NULL);
	int judged = NO_JUDGE;
	if (before && read_call(payload, &call)) {
		int tier = call.named ? table_tier(tiers, &call.tool) : UNKNOWN_TIER;
		if (call.raised > tier) tier = call.raised;
		if (tier > 0 && tier < UNKNOWN_TIER && speaks_of_the_gate(lines, &call)) tier = UNKNOWN_TIER;
		const char *form = value_of(lines, tier < HIGHEST_TIER ? "refuse-3" : "refuse-4", NULL);
		if (!is_word(&call.event, before) || tier < UNKNOWN_TIER) judged = GOES_ON;
		else if (form && append_refusal(said, form, &call.tool)) judged = IS_REFUSED;
	}
	free(call.event.data), free(call.tool.data), free(call.words.data);
	return judged;
}

#endif
