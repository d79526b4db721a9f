// The discoverer as an ordinary program, no WebAssembly, no cluster, no service: `zig cc listed_test.c -o listed_test &&
// ./listed_test`.
#include "listed.c"
#include "vendor/topoloom_test.h"

int main(void) {
  tl_test_node("m1", NULL, NULL);
  tl_test_node("m2", NULL, NULL);
  tl_test_answer(200, "{\"nodes\": [{\"name\": \"m1\", \"rack\": \"a7\"}, {\"name\": \"m2\", \"rack\": \"a7\"}]}");
  tl_test_round("names become racks", "{}", "tier 1 rack | a7 |  | m1 m2\n");
  tl_test_answer(200, "{\"nodes\": [{\"name\": \"m1\", \"rack\": \"a7\"}, {\"na");
  tl_test_round("half an answer is none", "{}", "failure upstream: there is no list of nodes in the answer\n");
  tl_test_answer(401, "");
  tl_test_round("a refused credential is named", "{}", "failure unauthorized: status 401\n");
  return tl_test_end();
}
