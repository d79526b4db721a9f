// All nodes with the same value of one label are close together.
#include "vendor/topoloom.h"

static tl_description describe(void) {
  return (tl_description){
      .name = TL_TEXT("racks"),
      .version = TL_TEXT("0.1.0"),
      .vendor = TL_TEXT("Acme"),
      .summary = TL_TEXT("One group per rack label"),
      .config_schema = TL_TEXT("{\"type\": \"object\", \"required\": [\"label\"], \"additionalProperties\": false,"
                               " \"properties\": {\"label\": {\"type\": \"string\", \"minLength\": 1}}}"),
  };
}

static void configure(const tl_json *config, tl_requirements *requirements, tl_list *problems) {
  tl_text label = tl_json_text(config, TL_TEXT("label"));
  for (const tl_json *member = config->first; member; member = member->next)
    if (!tl_same(member->key, TL_TEXT("label"))) tl_problem_at(problems, member->key, TL_TEXT("is not known here"));
  if (!label.length)
    tl_problem_at(problems, TL_TEXT("label"), TL_TEXT("must be the key of a node label, such as example.com/rack"));
  *TL_ADD(requirements->node_labels, tl_text) = label;
  *TL_ADD(requirements->triggers, tl_trigger) = (tl_trigger){TL_ON_COLUMNS, 0};
}

static void discover(const tl_input *input, tl_answered *answered) {
  tl_topology *topology = &answered->of.answer.topology;
  tl_text label = tl_json_text(input->config, TL_TEXT("label"));
  uint32_t racks = tl_level_of(topology, 1, label);
  tl_column column = {0};
  tl_snapshot_label(input->nodes, label.at, label.length, &column);
  tl_list *rows = tl_by_value(&column);
  for (uint32_t i = 0; i < column.dictionary.ends.length; i++) {
    tl_text rack = tl_entry(&column.dictionary, i);
    // A label may be there and have no value: such a node has no rack.
    if (!rack.length || !rows[i].length) continue;
    tl_group *group = tl_group_of(topology, racks, rack);
    *TL_ADD(group->labels, tl_pair) = (tl_pair){label, rack};
    group->members.rows = rows[i];
  }
}
