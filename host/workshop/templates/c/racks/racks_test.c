// The discoverer as an ordinary program, no WebAssembly and no cluster: `zig cc racks_test.c -o racks_test && ./racks_test`.
#include "racks.c"
#include "vendor/topoloom_test.h"

int main(void) {
  tl_test_node("m1", "rack", "a7");
  tl_test_node("m2", "rack", "a7");
  tl_test_node("m3", NULL, NULL);
  tl_test_round("nodes of one rack are one group", "{\"label\": \"rack\"}", "tier 1 rack | a7 | rack=a7 | m1 m2\n");
  tl_test_round("a label is needed", "{\"lable\": \"rack\"}",
                "problem lable: is not known here\n"
                "problem label: must be the key of a node label, such as example.com/rack\n");
  return tl_test_end();
}
