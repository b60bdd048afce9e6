#include <cstdlib>

#include "tests/conformance/harness.hpp"

namespace tutti::conformance {
namespace {

std::vector<Row> findRows() {
  std::vector<Row> all = cudaRows();
  if (!all.empty()) return all;
  for (const auto& some : {selfRows(), shmRows(), tcpRows(), simRows(), mailboxRows()})
    all.insert(all.end(), some.begin(), some.end());
  for (Row& row : ncclnetRows()) all.push_back(std::move(row));
#if TUTTI_HAVE_UCX
  for (Row& row : ucxRows()) all.push_back(std::move(row));
#endif
#if TUTTI_HAVE_VERBS
  for (Row& row : verbsRows()) all.push_back(std::move(row));
#endif
  if (const char* begin = std::getenv("TUTTI_TEST_ROWS"))
    std::erase_if(all, [&](const Row& row) { return !row.name.starts_with(begin); });
  return all;
}

}  // namespace

const std::vector<Row>& rows() {
  static const std::vector<Row> all = findRows();
  return all;
}

}  // namespace tutti::conformance
