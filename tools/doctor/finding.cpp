#include "tools/doctor/finding.hpp"

#include <algorithm>
#include <cstdio>

#include "src/base/text.hpp"
#include "tools/json.hpp"

namespace tutti::doctor {

const char* nameOf(Verdict verdict) {
  constexpr const char* kNames[] = {"fine", "note", "slow", "broken"};
  return kNames[static_cast<int>(verdict)];
}

Verdict worstOf(const Findings& findings) {
  Verdict worst = Verdict::Fine;
  for (const Finding& f : findings) worst = std::max(worst, f.verdict);
  return worst;
}

std::string sectionText(const std::string& title, const Findings& findings, bool quiet) {
  std::string text;
  for (const Finding& f : findings) {
    if (quiet && f.verdict == Verdict::Fine) continue;
    char name[16];
    std::snprintf(name, sizeof name, "  %-7s ", nameOf(f.verdict));
    text += cat(name, f.subject, ": ", f.what, "\n");
    if (!f.remedy.empty()) text += cat("            -> ", f.remedy, "\n");
  }
  return text.empty() ? "" : cat(title, "\n", text);
}

std::string findingsJson(const Findings& findings) {
  std::string text;
  for (const Finding& f : findings) {
    text +=
        cat(text.empty() ? "\n" : ",\n", R"(  {"subject": )", jsonText(f.subject), R"(, "verdict": )",
            jsonText(nameOf(f.verdict)), R"(, "what": )", jsonText(f.what), R"(, "remedy": )", jsonText(f.remedy), "}");
  }
  return cat("[", text, "\n]\n");
}

}  // namespace tutti::doctor
