// Racks as a service lists them: {"nodes": [{"name": "m1", "rack": "a7"}, …]}, or the list alone.
#include "vendor/topoloom.h"

static tl_description describe(void) {
  return (tl_description){
      .name = TL_TEXT("listed"),
      .version = TL_TEXT("0.1.0"),
      .vendor = TL_TEXT("Acme"),
      .summary = TL_TEXT("One group per rack of a list"),
      .config_schema = TL_TEXT("{\"type\": \"object\", \"additionalProperties\": false}"),
  };
}

// There is nothing to configure: the operator sets the address of the service in the entry.
static void configure(const tl_json *config, tl_requirements *requirements, tl_list *problems) {
  for (const tl_json *member = config->first; member; member = member->next)
    tl_problem_at(problems, member->key, TL_TEXT("is not known here"));
  tl_endpoint *list = TL_ADD(requirements->endpoints, tl_endpoint);
  list->name = TL_TEXT("list");
  list->purpose = TL_TEXT("Reads which rack every node is in");
  *TL_ADD(list->methods, uint8_t) = TL_GET;
  // Below the URL of the operator; ask for no more than you need. Of the kinds of credential the best comes first.
  *TL_ADD(list->paths, tl_text) = TL_TEXT("/v1");
  *TL_ADD(list->credentials, uint8_t) = TL_BEARER;
  *TL_ADD(list->credentials, uint8_t) = TL_BASIC;
  *TL_ADD(requirements->triggers, tl_trigger) = (tl_trigger){TL_ON_TIMER, 0};
  *TL_ADD(requirements->triggers, tl_trigger) = (tl_trigger){TL_ON_NAMES, 0};
}

typedef struct { tl_text rack; uint32_t row; } placed;

static bool is_before(const placed *a, const placed *b) {
  int order = tl_compare(a->rack, b->rack);
  return order ? order < 0 : a->row < b->row;
}

// By rack, then by row: nodes of one rack stand together, and one that is listed twice stands beside itself.
static void sort(placed *all, uint32_t count) {
  uint32_t step = 1;
  while (step < count / 3) step = step * 3 + 1;
  for (; step; step /= 3)
    for (uint32_t i = step; i < count; i++) {
      placed one = all[i];
      uint32_t at = i;
      for (; at >= step && is_before(&one, &all[at - step]); at -= step) all[at] = all[at - step];
      all[at] = one;
    }
}

static void discover(const tl_input *input, tl_answered *answered) {
  tl_text body;
  if (!tl_fetch(TL_TEXT("list"), TL_TEXT("/v1/nodes"), answered, &body)) return;
  const tl_json *document = tl_json_read(body);
  const tl_json *nodes = document && document->kind == TL_OBJECT ? tl_json_member(document, TL_TEXT("nodes")) : document;
  // A document that stops in the middle is none: half a list is no list with few nodes.
  if (!nodes || nodes->kind != TL_ARRAY) {
    tl_fail(answered, TL_FAILED_UPSTREAM, TL_TEXT("there is no list of nodes in the answer"));
    return;
  }
  tl_list names = {0}, racks = {0};
  uint32_t all = 0, odd = 0;
  for (const tl_json *record = nodes->first; record; record = record->next, all++) {
    tl_text name = tl_json_text(record, TL_TEXT("name")), rack = tl_json_text(record, TL_TEXT("rack"));
    if (!name.length || !rack.length || rack.length > 512) {
      odd++;
      continue;
    }
    *TL_ADD(names, tl_text) = name;
    *TL_ADD(racks, tl_text) = rack;
  }
  tl_text odd_of_all = tl_join(tl_join(tl_number(odd), TL_TEXT(" of ")), tl_number(all));
  if (odd * 20 > all) {
    tl_fail(answered, TL_FAILED_UPSTREAM, tl_join(odd_of_all, TL_TEXT(" records cannot be used")));
    return;
  }
  tl_list rows = tl_find(input->nodes, names.at, names.length), found = {0};
  for (uint32_t i = 0; i < rows.length; i++) {
    uint32_t row = TL_AT(rows, uint32_t, i);
    if (row) *TL_ADD(found, placed) = (placed){TL_AT(racks, tl_text, i), row - 1};
  }
  sort(found.at, found.length);
  tl_topology *topology = &answered->of.answer.topology;
  uint32_t level = tl_level_of(topology, 1, TL_TEXT("rack"));
  tl_group *group = NULL;
  for (uint32_t i = 0; i < found.length; i++) {
    placed one = TL_AT(found, placed, i);
    bool is_same = i && tl_same(one.rack, TL_AT(found, placed, i - 1).rack);
    if (is_same && one.row == TL_AT(found, placed, i - 1).row) continue;
    if (!is_same) group = tl_group_of(topology, level, one.rack);
    *TL_ADD(group->members.rows, uint32_t) = one.row;
  }
  if (odd) tl_diagnose(topology, TL_TEXT("unusable-record"), tl_join(odd_of_all, TL_TEXT(" records are left out")));
}
