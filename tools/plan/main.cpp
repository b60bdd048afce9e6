// tutti-plan: the best layouts for a model on a machine, one that is given, published runs and tables.
#include <cstdio>
#include <cstring>
#include <string>

#include "tools/plan/published_runs.hpp"
#include "tools/plan/search_view.hpp"
#include "tools/plan/tables.hpp"
#include "tools/version.hpp"

int main(int argc, char** argv) {
  if (tutti::printsVersion(argc, argv)) return 0;
  const std::string option = argc == 3 ? argv[1] : "";
  if (option == "--table") return printTable(argv[2]);
  if (option == "--run") return printRun(argv[2]);
  if (argc > 2) return planLayouts(argc, argv);
  const bool asked = argc == 2 && std::strcmp(argv[1], "--help") == 0;
  std::fprintf(
      asked ? stdout : stderr,
      "tutti-plan --table sequence | zero | zero++ | bubble | dualpipe | days | recompute | utilization | ring | "
      "context |\n"
      "           gather | servers | runs | zero-runs | llama | long | nemo | strong | deepseek | guides, or "
      "--version\n"
      "tutti-plan --run NAME: a published run, its prediction beside its figure; --table runs has all\n"
      "tutti-plan --layers N --hidden N --heads N --sequence N --batch SEQUENCES --ranks N [--vocabulary N]\n"
      "           [--kv-heads N] [--key-block KEYS] [--visible 1] [--experts N] [--choices 1] [--expert-width N]\n"
      "           [--parameters N] [--attention-width N] [--per-node 8] [--flops 1e12] [--gpu a100|h100|h200|b200] "
      "[--element-bytes 2]\n"
      "           [--watts 700] [--memory-bandwidth 3.35e12] [--attention-flops 328e12]\n"
      "           [--sustained 0.6] [--cast-bytes 4] [--gathers 2] [--tensors 1] [--memory-copies 0] [--part-us 0] "
      "[--zero-plus 1]\n"
      "           [--memory BYTES] [--node-bandwidth 100e9] [--node-latency-us 5]\n"
      "           [--bandwidth 10e9] [--latency-us 10] [--adapters N] [--overlap 0.9] [--speeds 1,1,0.5,...]\n"
      "           [--layout tp8,pp16,dp64]: this one alone; also cpN, epN, chunksN, zeroN, microN, sequence, "
      "selective,\n"
      "           full, alternate\n");
  return asked ? 0 : 2;
}
