// JSON of files that other programs may have written: every key is required and has a kind, and no
// other key is legal. Errors have the code of bad data (65).
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files/document.h"

namespace tessera {

/// The error of every damaged or malformed file.
UserError bad_data(const std::string& what, const std::string& why, const std::string& fix);

/// Parses JSON; `file` is for messages.
///   throws  UserError (65) with the position when `text` is not JSON, has a zero byte, or has a
///           table with a key twice
Document parse_json_strictly(std::string_view text, const std::string& file);

/// One table whose keys are all required, but those of find(). Ask for every key, then call
/// finish().
///
///   where   describes the table in messages: "tensor 'w'"
///   throws  UserError (65) when a key is missing or of the wrong kind; finish(): when the table
///           has a further key
class JsonFields {
 public:
  /// throws  UserError (65) when `document` is not a table
  JsonFields(const Document& document, std::string file, std::string where);

  const Document& any(const std::string& key);
  /// A value that may be missing; then nullptr.
  const Document* find(const std::string& key);
  /// An integer of at least 0.
  int64_t count(const std::string& key);
  std::vector<int64_t> counts(const std::string& key);
  const std::string& text(const std::string& key);
  const Document::Table& table(const std::string& key);
  const Document::List& list(const std::string& key);
  void finish() const;

  const std::string& file() const { return file_; }
  const std::string& where() const { return where_; }

 private:
  [[noreturn]] void refuse(const std::string& key, const Document& found,
                           const std::string& legal) const;

  const Document& table_;
  std::string file_, where_;
  std::set<std::string> asked_;
};

}  // namespace tessera
