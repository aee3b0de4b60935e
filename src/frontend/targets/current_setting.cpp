#include "frontend/targets/current_setting.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/files/file.h"
#include "frontend/targets/internal/given_flags.h"

namespace tessera {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 20;

}  // namespace

CurrentText current_text(const std::string& text_or_file) {
  std::error_code unknown;
  CurrentText current{text_or_file, ""};
  // A command line has spaces, and is longer than the name of any file.
  const bool may_be_file = text_or_file.find_first_of("\n\0") == std::string::npos &&
                           !text_or_file.starts_with("-") && text_or_file.size() < 4096;
  const bool is_file = may_be_file && std::filesystem::is_regular_file(text_or_file, unknown);
  if (is_file) {
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(text_or_file, unknown));
    current = {unknown || bytes > kMaxBytes ? "" : read_file(text_or_file), text_or_file};
    if (bytes <= kMaxBytes) return current;
    throw UserError(text_or_file + " is no setting", fmt::format("it has {} bytes", bytes),
                    "give a file of flags or a configuration, of at most 1 MiB",
                    ExitCode::kMissingInput);
  }
  if (text_or_file.find("--") == std::string::npos)
    throw UserError(fmt::format("there is no file '{}'", text_or_file),
                    "--current is a file, or the flags themselves, which begin with --",
                    "correct the name, or give the flags as one word in quotes",
                    ExitCode::kMissingInput);
  return current;
}

CurrentRun current_run(Target target, const CurrentText& current) {
  const GivenFlags flags(current);
  switch (target) {
    case Target::kMegatron: return megatron_run(flags);
    case Target::kTorchtitan: return torchtitan_run(flags);
    case Target::kFsdp: return fsdp_run(flags);
  }
  throw InternalError("unknown target");
}

CurrentSetting read_current(Target target, const CurrentText& current,
                            const TransformerSizes& model, int ranks) {
  const GivenFlags flags(current);
  switch (target) {
    case Target::kMegatron: return megatron_setting(flags, model, ranks);
    case Target::kTorchtitan: return torchtitan_setting(flags, model, ranks);
    case Target::kFsdp: return fsdp_setting(flags, ranks);
  }
  throw InternalError("unknown target");
}

}  // namespace tessera
