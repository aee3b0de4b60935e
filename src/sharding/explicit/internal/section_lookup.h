// Finds what a section of explicit shardings says of a name.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sharding/explicit/shardings.h"

namespace tessera {

/// A section by name; what it does not say is looked up in that of the training step.
///
///   threads  one caller at a time: the names that were asked for are remembered
class SectionLookup {
 public:
  /// shardings  outlives it; a section that is not there says nothing
  ///   throws  UserError (78) for a name that a section lists twice, and a malformed pattern
  SectionLookup(const Shardings& shardings, std::string_view name);

  /// nullptr: no section says anything.
  const std::string* op(const std::string& name) { return find(ops_, name); }
  const std::string* value(const std::string& name) { return find(values_, name); }
  const std::string* copies(const std::string& value) { return find(copies_, value); }
  const std::string* stage(const std::string& op) const;

  /// The ops that the section says to keep; that of the training step when there is no such
  /// section.
  std::vector<std::string> kept() const;
  /// Does the section itself say it?
  bool has_own_kept() const { return has_own_kept_; }

  const std::string& name() const { return name_; }
  /// The entries of the section itself that no caller asked for.
  std::vector<std::string> unused_ops() const { return unused(ops_); }
  std::vector<std::string> unused_values() const { return unused(values_); }
  std::vector<std::string> unused_copies() const { return unused(copies_); }

 private:
  struct Entry {
    const std::string* text;
    bool is_own;  // of the section itself
    bool is_used = false;
  };
  using Entries = std::unordered_map<std::string, Entry>;

  void add(const ShardingSection& section, bool is_own);
  void add_all(const std::vector<PatternDecision>& decisions, bool is_own, const char* kind,
               Entries& entries) const;
  void add_stages(const std::vector<PatternDecision>& stages);
  static const std::string* find(Entries& entries, const std::string& name);
  static std::vector<std::string> unused(const Entries& entries);

  std::string name_;
  std::vector<std::string> kept_;  // patterns
  bool has_own_kept_ = false;
  Entries ops_, values_, copies_;
  std::unordered_map<std::string, const std::string*> stages_;  // "a.b" exact, "a.*" and "*"
};

}  // namespace tessera
