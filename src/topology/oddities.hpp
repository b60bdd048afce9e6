// What is odd in a description, gathered by kind: a mistake that is in a file once is as a rule in it many times.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tutti::topology {

class Oddities {
 public:
  /// Kinds beyond this are only counted: a file of nonsense is to be no flood of sentences.
  static constexpr size_t kMostKinds = 32;

  /// line      where it is, 1 for the first
  /// subject   what it is there: "<pci> 0000:c5:00.0"; only the first of a kind is named
  /// sentence  what is odd about it and what is done, the same for all of the kind
  void add(int line, const std::string& subject, const std::string& sentence) {
    add(line, subject, sentence, sentence);
  }
  /// `kind` tells apart what one sentence is said of.
  void add(int line, const std::string& subject, const std::string& sentence, const std::string& kind);

  /// "line 9: SUBJECT SENTENCE (and 7 more: lines 23, 37, 51, ...)", a sentence for each kind in the order in which the
  /// kinds were met.
  std::vector<std::string> sentences() const;

 private:
  struct Kind {
    std::string first;
    std::vector<int> lines;  // a few more
    size_t count = 0;
    int last = 0;
  };
  std::map<std::string, size_t> known_;  // index into kinds_
  std::vector<Kind> kinds_;
  size_t uncounted_ = 0;  // of kinds beyond the most
};

}  // namespace tutti::topology
