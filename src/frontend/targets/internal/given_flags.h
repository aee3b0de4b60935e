// The flags of a command line, or the keys of a file, by their names.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/targets/setting.h"

namespace tessera {

/// Names are without leading dashes, with "_" in place of "-":
/// "parallelism.tensor_parallel_degree".
class GivenFlags {
 public:
  GivenFlags() = default;
  /// Of words as a shell reads them, or of a .toml, .json or .py file. Of a flag that is given
  /// twice the last value counts. Of a .py file the assignments NAME = VALUE and arguments
  /// NAME=VALUE whose value is a number, a text, True, False or None.
  explicit GivenFlags(const CurrentText& current);

  bool has(std::string_view name) const { return values_.contains(name); }
  /// Is the flag given, and not "false"?
  bool is_set(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
  ///   throws  UserError (78) for what is no number of at least `min` and at most 2^40
  std::optional<int64_t> number(std::string_view name, int64_t min = 1) const;
  int64_t number_or(std::string_view name, int64_t fallback, int64_t min = 1) const {
    return number(name, min).value_or(fallback);
  }
  /// The name as the user writes it: "--tensor-model-parallel-size" of words.
  std::string shown(std::string_view name) const;

 private:
  void read_words(std::string_view text);
  void read_document(const std::string& prefix, const class Document& document);
  void read_python(std::string_view text);

  std::map<std::string, std::string, std::less<>> values_;
  bool are_words_ = false;
};

/// The readers of the targets, one source each.
CurrentRun megatron_run(const GivenFlags& flags);
CurrentSetting megatron_setting(const GivenFlags& flags, const TransformerSizes& model, int ranks);
CurrentRun torchtitan_run(const GivenFlags& flags);
CurrentSetting torchtitan_setting(const GivenFlags& flags, const TransformerSizes& model,
                                  int ranks);
CurrentRun fsdp_run(const GivenFlags& flags);
CurrentSetting fsdp_setting(const GivenFlags& flags, int ranks);

/// The ranks that remain for data parallelism.
///   throws  UserError (78) when the other degrees do not divide them
int data_ranks(int ranks, int64_t others);

/// Refuses a flag whose number is not that of the model.
void check_size(const GivenFlags& flags, std::string_view name, int64_t of_model,
                std::string_view what);

}  // namespace tessera
