#include "tools/cli/internal/run/plan_cache.h"

#include <fmt/format.h>

#include <cstdlib>
#include <system_error>

#include "base/error.h"
#include "base/files/file.h"
#include "base/random.h"

namespace tessera {
namespace {

constexpr const char* kKey = "key";
constexpr const char* kContent = "content";

}  // namespace

std::optional<std::filesystem::path> cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache) return std::filesystem::path(cache) / "tessera";
  const char* home = std::getenv("HOME");
  if (home && *home) return std::filesystem::path(home) / ".cache" / "tessera";
  return std::nullopt;
}

std::filesystem::path PlanCache::file(const std::string& key) const {
  ensure(folder_.has_value(), "a cache without a folder has no files");
  return *folder_ / fmt::format("{}-{:016x}.json", kind_, stable_hash(key));
}

std::optional<Document> PlanCache::find(const std::string& key) const {
  std::error_code error;
  if (!folder_ || !std::filesystem::is_regular_file(file(key), error)) return std::nullopt;
  try {
    const Document entry = parse_json(read_own_file(file(key)), file(key).string());
    const Document* kept = entry.is_table() ? entry.find(kKey) : nullptr;
    const Document* content = entry.is_table() ? entry.find(kContent) : nullptr;
    if (!kept || !content || !(*kept == Document(key))) return std::nullopt;
    return *content;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

void PlanCache::keep(const std::string& key, const Document& document) const {
  if (!folder_) return;
  std::error_code error;
  std::filesystem::create_directories(*folder_, error);
  Document entry;
  entry[kKey] = key;
  entry[kContent] = document;
  try {
    write_own_file(file(key), to_json(entry, 2) + "\n");
  } catch (const UserError&) {
    // The plan is found again the next time.
  }
}

}  // namespace tessera
