// Codes of errors: what a Status has, what becomes of them in longer sentences and in texts from elsewhere.
#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

#include "src/base/status.hpp"

using namespace tutti;

TEST_CASE("an error has the code that it was given, else the general one of its result") {
  CHECK(invalidUsage(ErrorCode::AlgorithmUnknown, "no algorithm ", 7).text() == "no algorithm 7 [TUTTI-5104]");
  CHECK(invalidUsage("no").text() == "no [TUTTI-5000]");
  CHECK(remoteError("gone").kind() == generalCode(tuttiRemoteError));
  CHECK(Status(tuttiInProgress, "joining").text() == "joining");
  CHECK(Status().text().empty());
  CHECK(Status().kind() == ErrorCode{});
  CHECK(Status(tuttiSuccess, ErrorCode::NoMemory, "nothing").ok());
}

TEST_CASE("a longer sentence has the code of the one in it, which is no longer in the middle") {
  const Status inner = invalidUsage(ErrorCode::AlgorithmUnknown, "TUTTI_ALGO: no 'rng'");
  const Status outer = remoteError(ErrorCode::CannotJoin, "rank 2 cannot join: ", inner.text(), "; see there");
  CHECK(outer.code() == tuttiRemoteError);
  CHECK(outer.kind() == ErrorCode::AlgorithmUnknown);
  CHECK(outer.message() == "rank 2 cannot join: TUTTI_ALGO: no 'rng'; see there");
  CHECK(Status(tuttiRemoteError, outer.text()).text() == outer.text());
  const Status general = remoteError(ErrorCode::CannotJoin, "rank 2 cannot join: ", invalidUsage("so").text());
  CHECK(general.text() == "rank 2 cannot join: so [TUTTI-6003]");
}

TEST_CASE("of several codes the first that is not general counts") {
  std::string text = "a [TUTTI-2000]; b [TUTTI-2003]; c [TUTTI-2001]";
  CHECK(takeCodes(&text, ErrorCode::NoTransport) == ErrorCode::NotPermitted);
  CHECK(text == "a; b; c");
}

TEST_CASE("what only looks like a code stays") {
  for (const char* like : {"x [TUTTI-]", "x [TUTTI-12]", "x [TUTTI-12345]", "x [TUTTI-12a4]", "x [TUTTI-1234",
                           "x [TUTTI-", "x[TUTTI-1234]", " [TUTTI- [TUTTI-"}) {
    CAPTURE(like);
    std::string text = like;
    CHECK(takeCodes(&text, ErrorCode::Usage) == ErrorCode::Usage);
    CHECK(text == like);
  }
}

TEST_CASE("a text that is cut keeps its code") {
  const Status status = systemError(ErrorCode::NoMemory, std::string(100, 'x'));
  CHECK(status.text(40) == std::string(27, 'x') + " [TUTTI-2001]");
  CHECK(status.text(5) == " [TUTTI-2001]");
  CHECK(status.text(1000) == status.text());
}

TEST_CASE("errno says the kind") {
  CHECK(errnoError(EMFILE, "socket").kind() == ErrorCode::TooManyFiles);
  CHECK(errnoError(EACCES, "open").kind() == ErrorCode::NotPermitted);
  CHECK(errnoError(EIO, "read").kind() == ErrorCode::SystemRefused);
  CHECK(errnoError(ErrorCode::FileNotKept, EACCES, "open").text().ends_with("(errno 13) [TUTTI-2503]"));
}

TEST_CASE("the thousands of a code are its result") {
#define TUTTI_ERROR(number, name, what, causes, remedy)                                        \
  CHECK(resultOf(ErrorCode::name) > tuttiSuccess);                                             \
  CHECK(resultOf(ErrorCode::name) < tuttiNumResults);                                          \
  CHECK(std::string(tuttiGetErrorString(resultOf(ErrorCode::name))) != "unknown result code"); \
  CHECK((std::string(what).ends_with('.') && std::string(causes).ends_with('.') && *(remedy) != 0));
#include "src/base/errors/arguments.def"
#include "src/base/errors/remote.def"
#include "src/base/errors/system.def"
#include "src/base/errors/usage.def"
#undef TUTTI_ERROR
}
