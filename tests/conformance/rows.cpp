#include "tests/conformance/harness.hpp"

namespace tutti::conformance {

std::vector<Row> rows() {
  std::vector<Row> all = cudaRows();
  if (!all.empty()) return all;
  for (const auto& some : {selfRows(), shmRows(), tcpRows(), simRows(), mailboxRows()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace tutti::conformance
