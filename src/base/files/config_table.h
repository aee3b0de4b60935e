// Reads a table of settings. The legal keys are those that the reader asks for.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/document.h"

namespace tessera {

/// A key or a value of former versions, and its present name.
struct Renamed {
  std::string_view before, now;
};

/// A key or a value as other systems call it, and the name here. `note` follows the fix.
struct KeyAlias {
  std::string_view theirs, ours;
  std::string_view note = {};
};

/// A key of other systems for something that does not exist here.
struct ForeignKey {
  std::string_view theirs, why, fix;
};

/// A key as its reader declares it: its name, and what the reference says of it.
struct ConfigKey {
  // NOLINTBEGIN(google-explicit-constructor): a name alone is a key
  ConfigKey(const char* key_name) : name(key_name) {}
  ConfigKey(std::string key_name) : name(std::move(key_name)) {}
  // NOLINTEND(google-explicit-constructor)
  ConfigKey(std::string key_name, std::string_view meaning_text, std::string_view example_text)
      : name(std::move(key_name)), meaning(meaning_text), example(example_text) {}

  std::string name;
  std::string_view meaning = {};  // a sentence without its point
  std::string_view example = {};  // a value as TOML
};

/// A key that a reader asks for, as docs/configuration.md has it.
struct ReadKey {
  std::string name;      // with those of the tables around it: "train.steps"
  std::string type;      // "integer", "number", "true or false", "text", "list of texts", "table"
  std::string fallback;  // its value when it is absent, as JSON; "" for "table"
  std::string range;     // "1 to 10", "one of a, b"; "" for any
  std::string meaning = {}, example = {};  // of ConfigKey

  bool operator==(const ReadKey&) const = default;
};

/// What the reference says of a key whose value the caller reads itself.
struct ValueForm {
  std::string type = "table";
  std::string fallback = {}, range = {};  // as in ReadKey
  /// The name in the reference when all keys of this form have one line there: "CLASS".
  std::string listed = {};
};

/// Where the keys of a configuration come from, for messages: a file, and overrides of its keys.
struct ConfigOrigin {
  ConfigOrigin(std::string file_name) : file(std::move(file_name)) {}
  ConfigOrigin(const char* file_name) : file(file_name) {}

  /// "--set" for a key that an override sets, or that contains one; else the file.
  std::string at(const std::string& key) const;

  std::string file;
  std::set<std::string> overridden = {};  // whole paths: "train.steps"
};

/// One table of a configuration file. Ask for every key, then call finish().
///
///   throws  UserError (78) for a value of the wrong kind or out of range, with the full key, the
///           value and the legal ones, of which a choice suggests the most similar one; finish()
///           throws it for an unknown key, with the most similar legal key
class ConfigTable {
 public:
  /// `table` may be nullptr: then every key has its default. `path` is the key of the table, "" for
  /// the whole file; `origin` is for messages. `keys`, when given, receives what the reader asks
  /// for, here and in the tables inside; it outlives the table.
  ConfigTable(const Document* table, std::string path, ConfigOrigin origin,
              std::vector<ReadKey>* keys = nullptr);

  int64_t integer(const ConfigKey& key, int64_t fallback, int64_t smallest, int64_t largest);
  double number(const ConfigKey& key, double fallback, double smallest, double largest);
  bool boolean(const ConfigKey& key, bool fallback);
  std::string text(const ConfigKey& key, const std::string& fallback);
  /// `renamed` and `familiar` values are refused; the fix has their name here.
  std::string choice(const ConfigKey& key, const std::string& fallback,
                     const std::vector<std::string>& choices, std::span<const Renamed> renamed = {},
                     std::span<const KeyAlias> alias = {});
  /// A list of texts. A single text counts as a list of one.
  std::vector<std::string> texts(const ConfigKey& key, const std::vector<std::string>& fallback);
  /// A table inside this one; empty when absent. `listed` as in ValueForm.
  ConfigTable table(const ConfigKey& key, const std::string& listed = "");
  /// A table that the caller found in the value of a key: at `key` in messages, "marks[2]", at
  /// `listed` in the reference, "marks[]".
  ConfigTable inside(const Document& value, const std::string& key,
                     const std::string& listed) const;
  /// The value itself; nullptr when it is absent.
  const Document* raw(const ConfigKey& key, const ValueForm& form = {});
  /// Is the key there? It does not become legal by that.
  bool has(const std::string& key) const { return table_ && table_->find(key); }

  /// Refuses keys of former versions; the fix has their present name. Call it before finish().
  void refuse_renamed(std::span<const Renamed> keys) const;
  /// The same for keys of other systems; `ours` are whole paths. Keys that this table has are not
  /// refused: call it after the last key.
  void refuse_alias(std::span<const KeyAlias> keys) const;
  void refuse_foreign(std::span<const ForeignKey> keys) const;
  void finish() const;
  const std::string& file() const { return origin_.file; }
  /// The key with those of the tables around it: "train.steps".
  std::string full(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

 private:
  [[noreturn]] void refuse_what_is_no_table() const;
  std::string origin_of(const std::string& key) const { return origin_.at(full(key)); }
  std::string listed(const std::string& key) const {
    return listed_.empty() ? key : listed_ + "." + key;
  }
  [[noreturn]] void refuse(const std::string& key, const Document& found, const std::string& legal,
                           const std::string& close = "") const;

  /// The value of a key that is legal from here on.
  const Document* find(const std::string& key);
  const Document* find(const ConfigKey& key, std::string type, const Document& fallback,
                       std::string range = {});

  const Document* table_;
  std::string path_;
  ConfigOrigin origin_;
  std::string listed_;  // the path in the reference
  std::vector<ReadKey>* keys_;
  std::set<std::string> asked_;
};

}  // namespace tessera
