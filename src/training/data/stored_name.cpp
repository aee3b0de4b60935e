#include "training/data/stored_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files/gzip.h"
#include "base/files/zip.h"
#include "base/text/text.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kArchive = ".npz";

/// A file, and the member of it that a name asks for.
struct StoredName {
  fs::path file;
  std::optional<std::string> member;
};

StoredName parse_name(const fs::path& name) {
  const std::string text = name.string();
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || !std::string_view(text).substr(0, colon).ends_with(kArchive))
    return {name, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

/// The name of a member as numpy.load has it: without .npy.
std::string array_name(const ZipMember& member) {
  return member.name.ends_with(".npy") ? member.name.substr(0, member.name.size() - 4)
                                       : member.name;
}

const ZipMember& chosen_member(const ZipArchive& archive, const StoredName& name) {
  const std::vector<ZipMember>& members = archive.members();
  const std::string file = name.file.string();
  std::vector<std::string> names;
  for (const ZipMember& member : members) {
    names.push_back(array_name(member));
    if (name.member == names.back() || name.member == member.name) return member;
  }
  if (!name.member && members.size() == 1) return members.front();
  const std::string all =
      names.empty() ? "it has no arrays" : "it has the arrays " + join(names, ", ");
  if (!name.member)
    throw UserError(fmt::format("'{}' has {} arrays, of which none is named", file, names.size()),
                    all, fmt::format("write {}:NAME", file), ExitCode::kBadData);
  const std::string close = nearest(*name.member, names);
  throw UserError(fmt::format("'{}' has no array '{}'", file, *name.member), all,
                  close.empty() ? "name one of them" : "did you mean '" + close + "'?",
                  ExitCode::kBadData);
}

}  // namespace

std::string stored_ending(const fs::path& name) {
  const fs::path file = parse_name(name).file;
  return (file.extension() == ".gz" ? file.stem() : file).extension().string();
}

bool is_npy(const fs::path& name) {
  return stored_ending(name) == ".npy" || stored_ending(name) == kArchive;
}

std::string read_npy_bytes(const fs::path& name) {
  const StoredName parsed = parse_name(name);
  std::string bytes = read_inflated(parsed.file);
  if (stored_ending(name) != kArchive && !is_zip(bytes)) return bytes;
  const ZipArchive archive(std::move(bytes), parsed.file.string());
  return archive.read(chosen_member(archive, parsed));
}

}  // namespace tessera
