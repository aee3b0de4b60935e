// The reference of the keys of presets, plan files and cost files, on the page of key_reference.h.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/files/config_table.h"
#include "base/files/document.h"

namespace tessera {

/// What the reference says of a key besides its type, default and range.
struct KeyMeaning {
  std::string_view name;     // "train.steps"
  std::string_view meaning;  // a sentence without its point
  std::string_view example;  // a value as TOML; of a FileReference a whole file in short
};

/// A kind of file, or of table, beside those of a configuration.
struct FileReference {
  std::string_view title, text;
  /// In the order of the page. A name has `[]` for any item of a list, and a word in capitals for
  /// any key of a kind: "marks[].tensor", "links.axes.AXIS.latency".
  std::span<const KeyMeaning> meanings;
  /// The document of an example.
  Document (*parse_example)(std::string_view example);
  /// The keys that the parser asks for in this document.
  ///   throws  UserError (78) as the parser
  std::vector<ReadKey> (*keys_of)(const Document& document);
};
std::span<const FileReference> file_references();

/// Every key that the parser asks for in any of the examples, each name once.
std::vector<ReadKey> keys_of(const FileReference& reference);

}  // namespace tessera
