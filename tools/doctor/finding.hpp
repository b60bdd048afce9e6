// What tutti-doctor says of one thing that it looked at.
#pragma once

#include <string>
#include <vector>

namespace tutti::doctor {

enum class Verdict : int {
  Fine,
  Note,    // nothing wrong; worth knowing
  Slow,    // works, and slower than it could
  Broken,  // Tutti does not work here, or not with what was asked for
};

struct Finding {
  Verdict verdict = Verdict::Fine;
  std::string subject;  // what was looked at, a few words: "locked memory"
  std::string what;     // what was found, a clause
  std::string remedy;   // a command, or what to do; empty where nothing is to be done
};

using Findings = std::vector<Finding>;

/// "fine", "note", "slow", "broken".
const char* nameOf(Verdict verdict);
/// The worst verdict; Fine if there is none.
Verdict worstOf(const Findings& findings);

/// A section of lines as people read them, "" without findings.
///   quiet  leaves out what is fine
std::string sectionText(const std::string& title, const Findings& findings, bool quiet);
/// A JSON array of objects with "subject", "verdict", "what" and "remedy".
std::string findingsJson(const Findings& findings);

}  // namespace tutti::doctor
