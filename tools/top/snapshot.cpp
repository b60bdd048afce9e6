#include "tools/top/snapshot.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/base/text.hpp"

namespace tutti::top {
namespace {

constexpr int kMostAnswerBytes = 64 << 20;
constexpr int kAnswerPatienceS = 2;

/// None: nobody is there any more, or it says nothing in time.
std::optional<std::string> ask(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return {};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{kAnswerPatienceS, 0};
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (!fd.valid() || connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  std::string text;
  char piece[16384];
  for (;;) {
    const ssize_t n = recv(fd.get(), piece, sizeof piece, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 || text.size() > kMostAnswerBytes) return {};
    if (n == 0) break;
    text.append(piece, static_cast<size_t>(n));
  }
  return text.empty() ? std::nullopt : std::optional(text);
}

RankNow rankFrom(const nlohmann::json& j) {
  RankNow rank;
  rank.rank = j.at("rank");
  rank.pid = j.at("pid");
  rank.answered = j.at("answered");
  rank.silentMs = j.value("silentMs", int64_t{0});
  if (!rank.answered) return rank;
  rank.left = j.at("left");
  rank.calls = j.at("calls");
  rank.bytes = j.at("bytes");
  rank.collectives = j.at("collectives");
  rank.doing = j.at("doing");
  rank.doingNs = j.at("doingNs");
  rank.waitingOn = j.at("waitingOn");
  return rank;
}

}  // namespace

Result<std::vector<CommunicatorNow>> parseAnswer(const std::string& text) {
  try {
    const nlohmann::json j = nlohmann::json::parse(text);
    if (j.at("format") != 1) return invalidUsage("a process answers in another format than 1");
    std::vector<CommunicatorNow> all;
    for (const nlohmann::json& one : j.at("communicators")) {
      CommunicatorNow& c = all.emplace_back();
      c.id = toHex(one.at("communicator").get<uint64_t>());
      c.name = one.at("name");
      c.failure = one.at("failure");
      c.host = j.at("host");
      c.pid = j.at("pid");
      c.takenNs = nowNs();
      for (const nlohmann::json& rank : one.at("ranks")) c.ranks.push_back(rankFrom(rank));
    }
    return all;
  } catch (const nlohmann::json::exception& error) {
    return invalidUsage("an answer that is not understood: ", error.what());
  }
}

Result<std::vector<CommunicatorNow>> takeSnapshot(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> sockets;
  if (!std::filesystem::exists(folder, error)) return std::vector<CommunicatorNow>();  // no job has been here yet
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".sock") sockets.push_back(entry.path().string());
  }
  if (error) return invalidUsage("cannot read ", folder, ": ", error.message());
  std::sort(sockets.begin(), sockets.end());
  std::vector<CommunicatorNow> all;
  for (const std::string& path : sockets) {
    const std::optional<std::string> answer = ask(path);
    if (!answer) continue;
    TUTTI_ASSIGN(std::vector<CommunicatorNow> some, parseAnswer(*answer));
    for (CommunicatorNow& c : some) all.push_back(std::move(c));
  }
  return all;
}

}  // namespace tutti::top
