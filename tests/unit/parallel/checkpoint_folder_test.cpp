// Loading skips steps that somebody has renamed, and refuses pipes.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/support/temp_folder.hpp"
#include "tests/unit/parallel/support.hpp"
#include "tutti/parallel/ft.h"

using namespace tutti::test;
namespace fs = std::filesystem;

namespace {

const char* const kStepFolder = "/step-000000000003";

std::string save(const std::string& folder, int64_t step) {
  return onRanks(2, [&](const Rank& r) -> std::string {
    float value = static_cast<float>(step);
    const tuttiPiece_t piece = tuttiPieceOf("value", tuttiFloat32, 1, 1, &value);
    LAYER_TRY(tuttiCheckpointSave(r.comm, folder.c_str(), step, &piece, 1));
    return "";
  });
}

/// Both ranks load the newest step; what went wrong, the same for each.
std::string load(const std::string& folder, int64_t expected) {
  return onRanks(2, [&](const Rank& r) -> std::string {
    float value = -1;
    int64_t step = -1;
    const tuttiPiece_t piece = tuttiPieceOf("value", tuttiFloat32, 1, 1, &value);
    LAYER_TRY(tuttiCheckpointLoad(r.comm, folder.c_str(), &step, &piece, 1));
    RANK_CHECK(step == expected && value == static_cast<float>(expected));
    return "";
  });
}

void replaceByPipe(const std::string& path) {
  fs::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
}

}  // namespace

TEST_CASE("the newest step is of those whose names are as they were written") {
  const TempFolder folder;
  for (const int64_t step : {1, 3}) REQUIRE(save(folder.path(), step) == "");
  for (const char* name : {"step-000000000042-old", "step-42", "step-99999999999999999999999", "step-",
                           "step--00000000042", "step-+00000000042", "step-000000000x42"}) {
    fs::copy(folder.path() + kStepFolder, folder.path() + "/" + name, fs::copy_options::recursive);
  }
  CHECK(load(folder.path(), 3) == "");
}

TEST_CASE("what is no file is an error with its path, and nobody waits for it") {
  for (const std::string name : {"/complete", "/rank-0", "/rank-1"}) {
    CAPTURE(name);
    const TempFolder folder;
    REQUIRE(save(folder.path(), 3) == "");
    replaceByPipe(folder.path() + kStepFolder + name);
    const std::string why = load(folder.path(), 3);
    CHECK(why.find("rank 0: ") == 0);
    CHECK(why.find("rank 1: ") != std::string::npos);
    CHECK(why.find(folder.path() + kStepFolder + name + " is no file") != std::string::npos);
  }
  const TempFolder folder;
  REQUIRE(save(folder.path(), 3) == "");
  replaceByPipe(folder.path() + kStepFolder + "/rank-1.part");
  const std::string why = save(folder.path(), 3);
  CAPTURE(why);
  CHECK(why.find("rank-1.part cannot be opened") != std::string::npos);
}

TEST_CASE("a mark that is not as it was written is that of no complete step") {
  for (const std::string text :
       {"", "\n", "x", "0", "-2", "99999999999999999999999999", "2", "1", "02\n", "2\n\n", "2 files\n"}) {
    CAPTURE(text);
    const TempFolder folder;
    REQUIRE(save(folder.path(), 3) == "");
    folder.write(std::string(kStepFolder + 1) + "/complete", text);
    CHECK(load(folder.path(), 3).find("step-000000000003 is not complete") != std::string::npos);
  }
}
