// What is wrong with a job, from its ranks' records: pure functions.
#pragma once

#include <string>
#include <vector>

#include "tools/trace/job.hpp"

namespace tutti::trace {

enum class Finding {
  Well,       // every call that is recorded is over, on all ranks
  Different,  // ranks made different calls
  Missing,    // a rank in whose place others wait has left no file
  Behind,     // a rank has not entered a call in which others are
  Unmatched,  // a message that nobody sends, takes, or that the two ends see differently
  Waiting,    // all ranks are in the same call
  Failed,     // the communicator failed while no call was under way
};
const char* findingName(Finding finding);  // "well", ...

/// On one communicator.
struct Verdict {
  Finding finding = Finding::Well;
  std::vector<int> culprits;       // ranks
  std::string summary;             // one sentence
  std::vector<std::string> waits;  // who waits for whom, and where; what files say of why they were written
  std::string late;                // who comes last to calls; "": nobody does more than others
};

Verdict judge(const Job& job, const Communicator& communicator);

/// The verdicts on all of them, for people.
std::string report(const Job& job);
/// The same as JSON.
std::string reportJson(const Job& job);

}  // namespace tutti::trace
