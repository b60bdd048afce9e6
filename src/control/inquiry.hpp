// "What is everyone doing?"  One rank asks, all answer, it judges, and all hear the verdict.
//
//   Ask       floods the overlay; the link by which it first reached a rank is that rank's way back
//   Answer    travels that way, each by itself, so that a rank which falls silent holds back no one else's for long:
//             the asking rank repeats the question, and the new flood finds ways around it
//   verdict   a failure floods as any other (member.hpp); AllIsWell floods by itself
//
// Many ranks want to ask at once when something is wrong.  Only one inquiry lives: a question gives way to a better
// one (one that must end in a failure before Stalled, then the lower asking rank), and a rank that would ask while a
// good one is under way waits for its verdict.  Ranks that merely look around ask one after another, and leave a pause
// after each verdict that grows with what the inquiry took: on a machine with too much to do, many ranks' questions
// would else be most of what it does, and what they wait for.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/control/diagnosis.hpp"
#include "src/control/network.hpp"
#include "src/control/wire.hpp"

namespace tutti {

/// What an inquiry needs of the rank it runs on.
class InquiryHost {
 public:
  virtual ~InquiryHost() = default;
  virtual int64_t nowNs() const = 0;
  virtual RankReport report() const = 0;
  /// Send to all neighbours but one (-1: to all).
  virtual void flood(const std::string& message, int but) = 0;
  virtual void sendTo(int neighbour, const std::string& message) = 0;
  /// Neighbours that have left, with their last words.
  virtual std::vector<std::pair<int, RankReport>> departed() const = 0;
  /// Neighbours that have sent no heartbeat for a while.
  virtual std::vector<int> quiet() const = 0;
  /// Whether this rank has waited for so long that somebody should look.
  virtual bool waitsLong() const { return false; }
  /// Nothing has failed yet; that would be the verdict at the deadline.
  virtual void suspect(const Failure&) {}
  /// Nothing has failed; these are the answers.
  virtual void allIsWell(const std::vector<std::optional<RankReport>>&) {}
  /// The verdict: this failure, for everyone.
  virtual void conclude(const Failure& failure) = 0;
};

/// What this rank wants to know.
struct WantedVerdict {
  Question question;
  int64_t graceNs = 0;  // from when it is asked
  int64_t askNs = 0;    // not before
  int64_t deadlineNs = 0;
};

/// The inquiry that lives, ours or another's.
struct LiveInquiry {
  Question question;
  uint64_t number = 0;
  int parent = -1;  // -1: it is ours
  int64_t beganNs = 0;
  int64_t endNs = 0;
  // Ours only:
  int64_t nextLookNs = kNoTimer;
  size_t looks = 0;
  std::vector<std::optional<RankReport>> answers;
  std::set<int> quiet;
};

class Inquiry {
 public:
  Inquiry(InquiryHost& host, int rank, int nRanks) : host_(host), rank_(rank), nRanks_(nRanks) {}

  /// As BootstrapNode::inquire.
  void start(InquiryReason reason, uint64_t sequence, int suspect, int64_t graceNs);
  /// As BootstrapNode::putOffVerdict.
  void putOff(int64_t lateNs);
  /// As BootstrapNode::withdrawInquiry.
  void withdraw();
  /// This rank waits for a verdict.
  bool pending() const { return wanted_.has_value(); }
  /// As BootstrapNode::lastAnswers.
  const std::vector<std::optional<RankReport>>& lastAnswers() const { return lastAnswers_; }
  /// The communicator has failed: that is the verdict.
  void stop();

  /// Why somebody asks: of an Ask behind its type.
  static InquiryReason reasonOf(Reader ask);

  // Messages behind their type.  False: malformed.
  bool onAsk(int from, Reader& message);
  bool onAnswer(int from, Reader& message);
  bool onAllIsWell(int from, Reader& message);

  int64_t nextTimerNs() const;
  void onTimer();

 private:
  bool better(const Question& a, const Question& b) const;
  int64_t pauseEndNs(int64_t now) const;
  void begin();
  void allIsWell();
  void tellAllIsWell();
  void ask();
  void askAgain();
  void scheduleLook();
  void take(int rank, const RankReport& report);
  void look(bool last);
  void finish();
  void tellSuspicion();
  std::string answerMessage() const;

  InquiryHost& host_;
  const int rank_, nRanks_;
  std::optional<WantedVerdict> wanted_;
  std::optional<LiveInquiry> active_;
  std::vector<std::optional<RankReport>> lastAnswers_;
  uint64_t nextNumber_ = 1;
  int64_t wellNs_ = INT64_MIN / 2;  // when all was well, and how long that took to hear
  int64_t tookNs_ = 0;
  std::map<int, uint64_t> newestAsk_;  // by asking rank
  std::map<int, uint64_t> newestAllIsWell_;
};

}  // namespace tutti
