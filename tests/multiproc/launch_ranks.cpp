// One rank of a job that some launcher started: finds the others through the environment alone, twice, and checks that
// they are who they should be.  Prints "LAUNCHER rank R of N" and exits 0, or says what went wrong.
#include <cstdio>
#include <cstdlib>

#include "src/control/session/session.hpp"
#include "src/control/session/unique_id.hpp"

using namespace tutti;

namespace {

Status meetOnce(const std::shared_ptr<Session>& session, LaunchInfo* info) {
  const Deadline deadline = Deadline::inMs(20'000);
  TUTTI_ASSIGN(*info, launchInfo(deadline));
  JoinRequest request;
  request.rank = info->rank;
  request.nRanks = info->nRanks;
  request.info = cat("rank ", info->rank);
  if (info->nRanks > 1) {
    TUTTI_ASSIGN(const MeetingPlace place, decodeUniqueId(info->id));
    request.commId = place.commId;
    request.secret = place.secret;
    request.secretOfUser = place.secretOfUser;
    request.rendezvous = place.controlAddress;
  }
  TUTTI_ASSIGN(const std::unique_ptr<Control> control,
               session->join(request, deadline, nullptr, [](const Failure&) {}));
  for (int rank = 0; rank < info->nRanks; ++rank) {
    if (control->infos().at(static_cast<size_t>(rank)) != cat("rank ", rank)) return internalError("wrong infos");
  }
  return control->barrier(deadline);
}

Status run(int times, LaunchInfo* info) {
  TUTTI_ASSIGN(const std::shared_ptr<Session> session, Session::create());
  for (int i = 0; i < times; ++i) TUTTI_TRY(meetOnce(session, info));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const int times = argc > 1 ? std::atoi(argv[1]) : 1;
  LaunchInfo info;
  const Status status = run(times, &info);
  if (!status.ok()) {
    std::printf("rank %d: %s\n", info.rank, status.message().c_str());
    return 1;
  }
  std::printf("%s rank %d of %d\n", info.launcher.c_str(), info.rank, info.nRanks);
  return 0;
}
