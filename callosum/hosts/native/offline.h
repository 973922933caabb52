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
enum { UNKNOWN_TIER = 3, HIGHEST_TIER = 4, DEEPEST_PAYLOAD = 500, LONGEST_NUMBER = 4300, SHOWN_NAME = 100 };

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

struct reader {
	const char *at, *end;
	int depth;
};

struct call {
	struct text event, tool, words; /* `words`: the texts of the input and the folder, in lower case */
	int named, raised;              /* whether the tool's name is a string; what its input raises the tier to */
};

static void skip_space(struct reader *reader) {
	while (reader->at < reader->end && *reader->at && strchr(" \t\r\n", *reader->at)) reader->at++;
}

static int next_is(struct reader *reader, char sign) {
	skip_space(reader);
	if (reader->at >= reader->end || *reader->at != sign) return 0;
	return reader->at++, 1;
}

static int hex4(const char *at, const char *end, unsigned *found) {
	*found = 0;
	if (end - at < 4) return 0;
	for (int digit = 0; digit < 4; digit++) {
		const char *place = at[digit] ? strchr("0123456789abcdef0123456789ABCDEF", at[digit]) : NULL;
		if (!place) return 0;
		*found = *found * 16 + (unsigned)((place - "0123456789abcdef0123456789ABCDEF") & 15);
	}
	return 1;
}

static int append_code(struct text *into, unsigned code) {
	char bytes[4];
	size_t size = 0;
	if (code < 0x80) bytes[size++] = (char)code;
	else if (code < 0x800) bytes[size++] = (char)(0xc0 | code >> 6);
	else if (code < 0x10000) bytes[size++] = (char)(0xe0 | code >> 12), bytes[size++] = (char)(0x80 | (code >> 6 & 63));
	else {
		bytes[size++] = (char)(0xf0 | code >> 18), bytes[size++] = (char)(0x80 | (code >> 12 & 63));
		bytes[size++] = (char)(0x80 | (code >> 6 & 63));
	}
	if (code >= 0x80) bytes[size++] = (char)(0x80 | (code & 63));
	return append(into, bytes, size);
}

/* Read a string from behind its first quotation mark. `into` (may be NULL) gets its value. */
static int read_string(struct reader *reader, struct text *into) {
	static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	while (reader->at < reader->end) {
		const char *from = reader->at;
		while (reader->at < reader->end && *reader->at != '"' && *reader->at != '\\' && (unsigned char)*reader->at >= 0x20)
			reader->at++;
		if (into && !append(into, from, (size_t)(reader->at - from))) return 0;
		if (reader->at >= reader->end || (unsigned char)*reader->at < 0x20) return 0;
		if (*reader->at++ == '"') return 1;
		if (reader->at >= reader->end || !*reader->at) return 0;
		char sign = *reader->at++;
		const char *simple = strchr(escapes, sign);
		unsigned code = simple ? (unsigned char)meant[simple - escapes] : 0, low;
		if (!simple) {
			if (sign != 'u' || !hex4(reader->at, reader->end, &code)) return 0;
			reader->at += 4;
			if (code >= 0xd800 && code < 0xdc00 && reader->end - reader->at >= 6 && reader->at[0] == '\\' && reader->at[1] == 'u' &&
			    hex4(reader->at + 2, reader->end, &low) && low >= 0xdc00 && low < 0xe000)
				code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00), reader->at += 6;
		}
		if (into && !append_code(into, code)) return 0;
	}
	return 0;
}

static int digits(struct reader *reader) {
	const char *from = reader->at;
	while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') reader->at++;
	return reader->at > from;
}

static int read_number(struct reader *reader) {
	const char *from = reader->at;
	if (reader->at < reader->end && *reader->at == '-') reader->at++;
	if (reader->at < reader->end && *reader->at == '0') reader->at++;
	else if (!digits(reader)) return 0;
	if (reader->at < reader->end && *reader->at == '.' && (reader->at++, !digits(reader))) return 0;
	if (reader->at < reader->end && (*reader->at == 'e' || *reader->at == 'E')) {
		reader->at++;
		if (reader->at < reader->end && (*reader->at == '+' || *reader->at == '-')) reader->at++;
		if (!digits(reader)) return 0;
	}
	return reader->at - from <= LONGEST_NUMBER; /* the limit of Python */
}

static int read_word(struct reader *reader) {
	static const char *const words[] = {"true", "false", "null"};
	for (size_t at = 0; at < 3; at++) {
		size_t size = strlen(words[at]);
		if ((size_t)(reader->end - reader->at) >= size && !memcmp(reader->at, words[at], size))
			return reader->at += size, 1;
	}
	return 0;
}

/* Read any value. `words` (may be NULL) gets the strings in it and the names of members, one per line. */
static int read_value(struct reader *reader, struct text *words) {
	skip_space(reader);
	if (reader->at >= reader->end) return 0;
	char sign = *reader->at;
	if (sign == '"') return reader->at++, read_string(reader, words) && (!words || append(words, "\n", 1));
	if (sign != '{' && sign != '[') return sign == '-' || (sign >= '0' && sign <= '9') ? read_number(reader) : read_word(reader);
	char close = sign == '{' ? '}' : ']';
	reader->at++;
	if (next_is(reader, close)) return 1;
	if (++reader->depth > DEEPEST_PAYLOAD) return 0;
	do {
		if (sign == '{' && (!next_is(reader, '"') || !read_string(reader, words) || (words && !append(words, "\n", 1)) ||
		                    !next_is(reader, ':')))
			return 0;
		if (!read_value(reader, words)) return 0;
	} while (next_is(reader, ','));
	reader->depth--;
	return next_is(reader, close);
}

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

static int is_utf8(const struct text *text) {
	for (size_t at = 0; at < text->size;) {
		unsigned char first = (unsigned char)text->data[at++];
		int more = first < 0x80 ? 0 : first >= 0xc2 && first < 0xe0 ? 1 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xf0 && first < 0xf5 ? 3 : -1;
		unsigned char next = at < text->size ? (unsigned char)text->data[at] : 0;
		if (more < 0 || (first == 0xe0 && next < 0xa0) || (first == 0xf0 && next < 0x90) || (first == 0xf4 && next >= 0x90)) return 0;
		for (; more; more--, at++)
			if (at >= text->size || ((unsigned char)text->data[at] & 0xc0) != 0x80) return 0;
	}
	return 1;
}

static int read_call(const struct text *payload, struct call *call) {
	struct reader reader = {payload->data, payload->data + payload->size, 0};
	if (!append(&call->event, "", 0) || !append(&call->tool, "", 0) || !append(&call->words, "", 0)) return 0;
	if (!payload->size || !is_utf8(payload) || !next_is(&reader, '{') || !read_members(&reader, call, 0)) return 0;
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
