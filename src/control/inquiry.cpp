#include "src/control/inquiry.hpp"

#include <algorithm>
#include <array>

namespace tutti {

namespace {

bool mustFail(InquiryReason reason) { return reason != InquiryReason::Stalled; }

constexpr int64_t kMaxGraceNs = 600'000'000'000;  // of others: a limit for what is believed
// When the asking rank looks again, in fortieths of the time it has.  At the early looks all may have answered, but one
// of them just before it entered the call in question; only then are they worth another flood.
constexpr std::array kLooks = {1, 2, 4, 8, 16, 26, 36};
constexpr size_t kEarlyLooks = 4;

// The pause after a verdict is kPauses times what the inquiry took; that counts as kLeastTookNs a rank at least.
constexpr int64_t kPauses = 4;
constexpr int64_t kLeastTookNs = 250'000;
constexpr int64_t kMostTookNs = 100'000'000;

int64_t lookNs(int64_t beganNs, int64_t endNs, size_t look) { return beganNs + (endNs - beganNs) / 40 * kLooks[look]; }

}  // namespace

/// Whether a question puts another one aside.
bool Inquiry::better(const Question& a, const Question& b) const {
  if (mustFail(a.reason) != mustFail(b.reason)) return mustFail(a.reason);
  return a.origin < b.origin;
}

/// When a rank that merely looks around may ask.
int64_t Inquiry::pauseEndNs(int64_t now) const {
  const int64_t pauseNs = kPauses * std::min(std::max(tookNs_, kLeastTookNs * nRanks_), kMostTookNs);
  return std::max(now, wellNs_ + pauseNs) + pauseNs * rank_ / nRanks_;
}

void Inquiry::start(InquiryReason reason, uint64_t sequence, int suspect, int64_t graceNs) {
  // Another thread waits for a verdict, which will do for who merely looks around.
  if (wanted_ && mustFail(wanted_->question.reason) && !mustFail(reason)) return;
  const int64_t now = host_.nowNs();
  graceNs = std::clamp<int64_t>(graceNs, 1, kMaxGraceNs);
  WantedVerdict wanted{{reason, rank_, sequence, suspect}, graceNs, mustFail(reason) ? now : pauseEndNs(now), 0};
  if (wanted_) wanted.askNs = std::min(wanted.askNs, wanted_->askNs);
  wanted.deadlineNs = wanted.askNs + graceNs;
  const bool othersWillDo = active_ && active_->parent >= 0 && active_->endNs > now &&
                            (mustFail(active_->question.reason) || !mustFail(reason));
  if (othersWillDo) wanted.deadlineNs = std::max(wanted.deadlineNs, active_->endNs);
  const bool oursWillDo = active_ && active_->parent < 0 && (mustFail(active_->question.reason) || !mustFail(reason));
  wanted_ = wanted;
  if (!othersWillDo && !oursWillDo && wanted.askNs <= now) begin();
}

/// Ask what is wanted.
void Inquiry::begin() {
  const int64_t now = host_.nowNs();
  wanted_->deadlineNs = now + wanted_->graceNs;
  active_.emplace();
  active_->question = wanted_->question;
  active_->beganNs = now;
  active_->endNs = wanted_->deadlineNs;
  active_->answers.resize(static_cast<size_t>(nRanks_));
  ask();
  look(false);  // alone, or all others have left
}

void Inquiry::putOff(int64_t lateNs) {
  if (!wanted_ || !mustFail(wanted_->question.reason)) return;
  wanted_->deadlineNs += lateNs;
  if (!active_) return;
  active_->beganNs += lateNs;
  active_->endNs += lateNs;
  if (active_->parent < 0) active_->nextLookNs += lateNs;
}

/// Ranks may leave in order as soon as the wait is over, which would look as if they had left too early.
void Inquiry::withdraw() {
  if (!wanted_ || mustFail(wanted_->question.reason)) return;
  wanted_.reset();
  if (active_ && active_->parent < 0 && !mustFail(active_->question.reason)) tellAllIsWell();
}

void Inquiry::stop() {
  wanted_.reset();
  active_.reset();
}

/// Send the question, or send it anew under a new number.
void Inquiry::ask() {
  LiveInquiry& a = *active_;
  a.number = nextNumber_++;
  scheduleLook();
  newestAsk_[rank_] = a.number;
  take(rank_, host_.report());
  for (const auto& [rank, report] : host_.departed()) take(rank, report);
  for (int rank : host_.quiet()) a.quiet.insert(rank);
  Writer w(MessageType::Ask);
  w.i32(rank_);
  w.u64(a.number);
  w.u8(static_cast<uint8_t>(a.question.reason));
  w.u64(a.question.sequence);
  w.i32(a.question.suspect);
  w.i64(a.endNs - host_.nowNs());
  host_.flood(w.take(), -1);
}

void Inquiry::askAgain() {
  const LiveInquiry& a = *active_;
  const bool allAnswered = std::ranges::all_of(a.answers, [](const auto& answer) { return answer.has_value(); });
  if (a.looks > kEarlyLooks || allAnswered) return ask();
  scheduleLook();
}

void Inquiry::scheduleLook() { active_->nextLookNs = lookNs(active_->beganNs, active_->endNs, active_->looks); }

InquiryReason Inquiry::reasonOf(Reader ask) {
  ask.i32();
  ask.u64();
  return static_cast<InquiryReason>(ask.u8());
}

bool Inquiry::onAsk(int from, Reader& in) {
  Question q;
  q.origin = in.i32();
  const uint64_t number = in.u64();
  const uint8_t reason = in.u8();
  q.reason = static_cast<InquiryReason>(reason);
  q.sequence = in.u64();
  q.suspect = in.i32();
  const int64_t leftNs = std::clamp<int64_t>(in.i64(), 0, kMaxGraceNs);
  const bool valid = in.done() && q.origin >= 0 && q.origin < nRanks_ && q.suspect >= -1 && q.suspect < nRanks_ &&
                     reason <= static_cast<uint8_t>(InquiryReason::Stalled);
  if (!valid) return false;
  const int64_t now = host_.nowNs();
  uint64_t& newest = newestAsk_[q.origin];
  if (q.origin == rank_ || number <= newest) return true;
  const bool sameOrigin = active_ && active_->question.origin == q.origin;
  const bool alive = active_ && active_->endNs > now;
  if (alive && !sameOrigin && better(active_->question, q)) return true;  // the other rank will hear of this one
  newest = number;
  const int64_t beganNs = alive ? active_->beganNs : now;
  // What was asked here is put aside: the better question's verdict is ours as well.
  active_.emplace();
  active_->question = q;
  active_->number = number;
  active_->parent = from;
  active_->beganNs = beganNs;
  active_->endNs = now + leftNs + std::max<int64_t>(leftNs / 4, 1'000'000);
  if (wanted_) wanted_->deadlineNs = std::max(wanted_->deadlineNs, active_->endNs);
  Writer w(MessageType::Ask);
  w.i32(q.origin);
  w.u64(number);
  w.u8(reason);
  w.u64(q.sequence);
  w.i32(q.suspect);
  w.i64(leftNs);
  host_.flood(w.take(), from);
  host_.sendTo(from, answerMessage());
  return true;
}

std::string Inquiry::answerMessage() const {
  std::vector<std::pair<int, RankReport>> all = host_.departed();
  all.emplace_back(rank_, host_.report());
  const std::vector<int> quiet = host_.quiet();
  Writer w(MessageType::Answer);
  w.i32(active_->question.origin);
  w.u64(active_->number);
  w.u32(static_cast<uint32_t>(quiet.size()));
  for (int rank : quiet) w.i32(rank);
  w.u32(static_cast<uint32_t>(all.size()));
  for (const auto& [rank, report] : all) {
    w.i32(rank);
    writeRankReport(w, report);
  }
  return w.take();
}

bool Inquiry::onAnswer(int, Reader& in) {
  Writer forward(MessageType::Answer);
  const int origin = in.i32();
  const uint64_t number = in.u64();
  std::vector<int> quiet(in.count(4));
  for (int& rank : quiet) rank = in.i32();
  std::vector<std::pair<int, RankReport>> all(in.count(71));
  for (auto& [rank, report] : all) {
    rank = in.i32();
    report = readRankReport(in);
    if (rank < 0 || rank >= nRanks_) return false;
  }
  if (!in.done()) return false;
  if (!active_ || active_->question.origin != origin) return true;  // put aside, or over
  if (active_->parent >= 0) {
    if (number != active_->number) return true;
    forward.i32(origin);
    forward.u64(number);
    forward.u32(static_cast<uint32_t>(quiet.size()));
    for (int rank : quiet) forward.i32(rank);
    forward.u32(static_cast<uint32_t>(all.size()));
    for (const auto& [rank, report] : all) {
      forward.i32(rank);
      writeRankReport(forward, report);
    }
    host_.sendTo(active_->parent, forward.take());
    return true;
  }
  for (int rank : quiet) active_->quiet.insert(rank);
  for (const auto& [rank, report] : all) take(rank, report);
  look(false);
  return true;
}

/// Note an answer.  One of the rank itself counts more than what a neighbour says of its leaving.
void Inquiry::take(int rank, const RankReport& report) {
  std::optional<RankReport>& known = active_->answers[static_cast<size_t>(rank)];
  if (rank != rank_ || !report.left) known = report;
}

/// Judge by what is known.  `last`: there is no more time.
void Inquiry::look(bool last) {
  const LiveInquiry& a = *active_;
  bool complete = true;
  bool onlyQuietMissing = a.looks + 1 >= kLooks.size();
  for (int rank = 0; rank < nRanks_; ++rank) {
    if (a.answers[static_cast<size_t>(rank)]) continue;
    complete = false;
    onlyQuietMissing = onlyQuietMissing && a.quiet.contains(rank);
  }
  if (!complete && !onlyQuietMissing && !last && a.question.reason != InquiryReason::Mismatch) return;
  const Diagnosis diagnosis = diagnose(a.question, a.answers);
  if (!diagnosis.certain && !onlyQuietMissing && !last) return;
  if (!diagnosis.failure) return finish();
  const Failure failure = *diagnosis.failure;
  stop();
  host_.conclude(failure);
}

/// Who would be to blame if the time were up.  A mute rank may be slow, unless its heartbeats are missing, too.
void Inquiry::tellSuspicion() {
  Question question = active_->question;
  question.reason = InquiryReason::Deadline;
  const std::optional<Failure> suspicion = diagnose(question, active_->answers).failure;
  if (!suspicion || suspicion->rank < 0) return;
  const bool answers = active_->answers[static_cast<size_t>(suspicion->rank)].has_value();
  if (answers || active_->quiet.contains(suspicion->rank)) host_.suspect(*suspicion);
}

void Inquiry::allIsWell() {
  wellNs_ = host_.nowNs();
  tookNs_ = wellNs_ - active_->beganNs;
  active_.reset();
}

/// Ours found nothing wrong.
void Inquiry::finish() {
  if (host_.waitsLong()) tellSuspicion();
  lastAnswers_ = std::move(active_->answers);
  wanted_.reset();
  tellAllIsWell();
  host_.allIsWell(lastAnswers_);
}

void Inquiry::tellAllIsWell() {
  Writer w(MessageType::AllIsWell);
  w.i32(rank_);
  w.u64(active_->number);
  allIsWell();
  host_.flood(w.take(), -1);
}

bool Inquiry::onAllIsWell(int from, Reader& in) {
  const int origin = in.i32();
  const uint64_t number = in.u64();
  if (!in.done() || origin < 0 || origin >= nRanks_) return false;
  uint64_t& newest = newestAllIsWell_[origin];
  if (origin == rank_ || number <= newest) return true;
  newest = number;
  if (active_ && active_->question.origin == origin && active_->number <= number) {
    allIsWell();
    if (wanted_ && !mustFail(wanted_->question.reason)) wanted_.reset();
  }
  Writer w(MessageType::AllIsWell);
  w.i32(origin);
  w.u64(number);
  host_.flood(w.take(), from);
  return true;
}

int64_t Inquiry::nextTimerNs() const {
  if (active_) return active_->parent < 0 ? active_->nextLookNs : active_->endNs;
  if (!wanted_) return kNoTimer;
  return mustFail(wanted_->question.reason) ? wanted_->deadlineNs : wanted_->askNs;
}

void Inquiry::onTimer() {
  const int64_t now = host_.nowNs();
  if (active_ && active_->parent < 0 && active_->nextLookNs <= now) {
    const bool last = ++active_->looks >= kLooks.size();
    look(last);
    if (active_ && active_->parent < 0) askAgain();
  }
  if (active_ && active_->parent >= 0 && active_->endNs <= now) {
    active_.reset();
    // The rank that asked is silent or hardly gets a core.  An inquiry of our own finds out which.
    if (wanted_ && mustFail(wanted_->question.reason)) return begin();
    wanted_.reset();
  }
  if (active_ || !wanted_) return;
  if (!mustFail(wanted_->question.reason)) {
    if (wanted_->askNs <= now) begin();
  } else if (wanted_->deadlineNs <= now) {  // nobody's verdict has come
    wanted_.reset();
    host_.conclude({-1, timeoutError(ErrorCode::RankSilent, "rank ", rank_, " has waited too long")});
  }
}

}  // namespace tutti
