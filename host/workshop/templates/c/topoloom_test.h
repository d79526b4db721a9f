// A cluster in memory for tests of a discoverer as an ordinary program: include it after the discoverer. It grants what `configure`
// asks for, and nothing else. Written by `topoloom plugin new`.
#ifndef TOPOLOOM_TEST_H
#define TOPOLOOM_TEST_H

#include <stdio.h>

#define TL_TEST_MOST 1000

static struct { const char *name, *key, *value; } tl_test_nodes[TL_TEST_MOST];
static uint32_t tl_test_count;
static tl_requirements tl_test_granted;
static const char *tl_test_body = "";
static uint32_t tl_test_status = 200, tl_test_read, tl_test_failures, tl_test_rounds;

static tl_text tl_test_text(const char *text) { return (tl_text){text, (uint32_t)strlen(text)}; }

// Adds a node; with a label, if a key is given.
static TL_UNUSED void tl_test_node(const char *name, const char *key, const char *value) {
  if (tl_test_count == TL_TEST_MOST) abort();
  tl_test_nodes[tl_test_count].name = name;
  tl_test_nodes[tl_test_count].key = key;
  tl_test_nodes[tl_test_count++].value = value;
}

// What every request is answered with from now on.
static TL_UNUSED void tl_test_answer(uint32_t status, const char *body) {
  tl_test_status = status;
  tl_test_body = body;
}

// ---- The host -----------------------------------------------------------------------------------------------------------

uint32_t tl_snapshot_rows(uint32_t self) { return (void)self, tl_test_count; }

void tl_snapshot_label(uint32_t self, const char *key, uint32_t length, tl_column *out) {
  (void)self;
  tl_text wanted = {key, length};
  tl_list values = {0};
  bool is_granted = false;
  for (uint32_t i = 0; i < tl_test_granted.node_labels.length; i++)
    is_granted |= tl_same(TL_AT(tl_test_granted.node_labels, tl_text, i), wanted);
  *out = (tl_column){0};
  for (uint32_t row = 0; row < tl_test_count; row++) {
    uint32_t *code = TL_ADD(out->codes, uint32_t);
    const char *has = tl_test_nodes[row].key;
    if (!is_granted || !has || !tl_same(tl_test_text(has), wanted)) continue;
    tl_text value = tl_test_text(tl_test_nodes[row].value);
    while (*code < values.length && !tl_same(TL_AT(values, tl_text, *code), value)) ++*code;
    if (*code == values.length) {
      *TL_ADD(values, tl_text) = value;
      out->dictionary.text = tl_join(out->dictionary.text, value);
      *TL_ADD(out->dictionary.ends, uint32_t) = out->dictionary.text.length;
    }
    ++*code;
  }
}

void tl_snapshot_annotation(uint32_t self, const char *key, uint32_t length, tl_column *out) {
  (void)self, (void)key, (void)length;
  *out = (tl_column){.codes = {tl_new(tl_test_count, sizeof(uint32_t)), tl_test_count}};
}

void tl_snapshot_names(uint32_t self, tl_packed *out) {
  (void)self;
  *out = (tl_packed){0};
  for (uint32_t row = 0; row < tl_test_count; row++) {
    out->text = tl_join(out->text, tl_test_text(tl_test_nodes[row].name));
    *TL_ADD(out->ends, uint32_t) = out->text.length;
  }
}

void tl_snapshot_find(uint32_t self, const char *text, uint32_t length, const void *ends, uint32_t count, tl_list *out) {
  (void)self;
  tl_packed names = {{text, length}, {(void *)ends, count}};
  *out = (tl_list){0};
  for (uint32_t i = 0; i < count; i++) {
    uint32_t *found = TL_ADD(*out, uint32_t);
    for (uint32_t row = 0; row < tl_test_count; row++)
      if (tl_same(tl_entry(&names, i), tl_test_text(tl_test_nodes[row].name))) *found = row + 1;
  }
}

void tl_snapshot_drop(uint32_t self) { (void)self; }

void tl_http_send(const char *endpoint, uint32_t endpoint_length, uint32_t method, const char *path, uint32_t path_length,
                  const void *headers, uint32_t headers_count, uint32_t has_body, const void *body, uint32_t body_length,
                  tl_sent *out) {
  (void)method, (void)path, (void)path_length, (void)headers, (void)headers_count;
  (void)has_body, (void)body, (void)body_length;
  *out = (tl_sent){.is_error = 1, .of.error = {TL_HTTP_DENIED, TL_TEXT("the endpoint is not granted")}};
  for (uint32_t i = 0; i < tl_test_granted.endpoints.length; i++)
    if (tl_same(TL_AT(tl_test_granted.endpoints, tl_endpoint, i).name, (tl_text){endpoint, endpoint_length}))
      *out = (tl_sent){0};
  tl_test_read = 0;
}
uint32_t tl_response_status(uint32_t self) { return (void)self, tl_test_status; }
void tl_response_headers(uint32_t self, tl_list *out) { (void)self, *out = (tl_list){0}; }
void tl_response_read(uint32_t self, uint32_t max, tl_piece *out) {
  (void)self, (void)max;
  // In two pieces, as from a network.
  uint32_t length = (uint32_t)strlen(tl_test_body), rest = length - tl_test_read;
  uint32_t size = tl_test_read ? rest : (rest + 1) / 2;
  *out = (tl_piece){.of.bytes = {(void *)(tl_test_body + tl_test_read), size}};
  tl_test_read += size;
}
void tl_response_drop(uint32_t self) { (void)self; }

void tl_log_write(uint32_t level, const char *text, uint32_t length) {
  static const char *const levels[] = {"debug", "info", "warn", "error"};
  fprintf(stderr, "%s: %.*s\n", levels[level & 3], (int)length, text);
}

// ---- A round, as text -----------------------------------------------------------------------------------------------------

static int tl_test_order(const void *a, const void *b) { return tl_compare(*(const tl_text *)a, *(const tl_text *)b); }

static tl_text tl_test_sorted(tl_list texts, const char *between) {
  tl_text all = {"", 0};
  if (texts.length) qsort(texts.at, texts.length, sizeof(tl_text), tl_test_order);
  for (uint32_t i = 0; i < texts.length; i++)
    all = tl_join(i ? tl_join(all, tl_test_text(between)) : all, TL_AT(texts, tl_text, i));
  return all;
}

static tl_text tl_test_joined(uint32_t count, const tl_text *parts) {
  tl_text all = {"", 0};
  for (uint32_t i = 0; i < count; i++) all = tl_join(all, parts[i]);
  return all;
}
#define TL_TEST_LINE(...) \
  tl_test_joined(sizeof((tl_text[]){__VA_ARGS__}) / sizeof(tl_text), (tl_text[]){__VA_ARGS__})

static tl_text tl_test_group(const tl_topology *topology, const tl_group *group) {
  const tl_level *level = &TL_AT(topology->levels, tl_level, group->level);
  tl_list labels = {0}, members = {0};
  for (uint32_t i = 0; i < group->labels.length; i++) {
    tl_pair label = TL_AT(group->labels, tl_pair, i);
    *TL_ADD(labels, tl_text) = TL_TEST_LINE(label.key, TL_TEXT("="), label.value);
  }
  for (uint32_t i = 0; i < group->members.rows.length; i++) {
    uint32_t member = TL_AT(group->members.rows, uint32_t, i);
    *TL_ADD(members, tl_text) = group->form ? TL_AT(topology->groups, tl_group, member).id
                                : member < tl_test_count ? tl_test_text(tl_test_nodes[member].name) : TL_TEXT("?");
  }
  tl_text named = tl_test_sorted(members, " ");
  return TL_TEST_LINE(TL_TEXT("tier "), tl_number(level->tier), TL_TEXT(" "), level->name.some ? level->name.text : TL_TEXT("-"),
                      TL_TEXT(" | "), group->id, TL_TEXT(" | "), tl_test_sorted(labels, " "), TL_TEXT(" | "),
                      group->form ? TL_TEST_LINE(TL_TEXT("["), named, TL_TEXT("]")) : named, TL_TEXT("\n"));
}

static tl_text tl_test_shown(const tl_topology *topology) {
  tl_list groups = {0}, diagnostics = {0};
  for (uint32_t i = 0; i < topology->groups.length; i++)
    *TL_ADD(groups, tl_text) = tl_test_group(topology, &TL_AT(topology->groups, tl_group, i));
  for (uint32_t i = 0; i < topology->diagnostics.length; i++) {
    const tl_diagnostic *it = &TL_AT(topology->diagnostics, tl_diagnostic, i);
    *TL_ADD(diagnostics, tl_text) = TL_TEST_LINE(TL_TEXT("! "), it->code, TL_TEXT(" | source | "), it->detail, TL_TEXT("\n"));
  }
  return tl_join(tl_test_sorted(groups, ""), tl_test_sorted(diagnostics, ""));
}

// One round as the host would run it, and the text that it has to be.
static TL_UNUSED void tl_test_round(const char *what, const char *config, const char *wanted) {
  static const char *const kinds[] = {"config", "denied", "unauthorized", "upstream", "internal"};
  tl_configured configured = {0};
  tl_answered answered = {0};
  tl_text shown = {"", 0};
  tl_configure(tl_test_text(config), &configured);
  if (configured.is_error) {
    for (uint32_t i = 0; i < configured.of.problems.length; i++) {
      tl_problem it = TL_AT(configured.of.problems, tl_problem, i);
      shown = TL_TEST_LINE(shown, TL_TEXT("problem "), it.path, TL_TEXT(": "), it.message, TL_TEXT("\n"));
    }
  } else {
    tl_test_granted = configured.of.requirements;
    tl_discover(tl_test_text(config), 1, 0, (tl_text){"", 0}, &answered);
    if (answered.is_error) {
      const tl_failure *failure = &answered.of.failure;
      shown = TL_TEST_LINE(TL_TEXT("failure "), tl_test_text(kinds[failure->kind]), TL_TEXT(": "), failure->message, TL_TEXT("\n"));
    } else {
      shown = tl_test_shown(&answered.of.answer.topology);
    }
  }
  tl_test_rounds++;
  if (tl_same(shown, tl_test_text(wanted))) return;
  tl_test_failures++;
  fprintf(stderr, "%s: it is\n%.*sand should be\n%s", what, (int)shown.length, shown.at, wanted);
}

// The last line, and the exit code.
static TL_UNUSED int tl_test_end(void) {
  printf("%u passed, %u failed\n", tl_test_rounds - tl_test_failures, tl_test_failures);
  return tl_test_failures > 0;
}

#endif
