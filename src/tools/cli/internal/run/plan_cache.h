// Plans that were found before, as files in the user's cache folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/files/document.h"

namespace tessera {

/// $XDG_CACHE_HOME/tessera, else $HOME/.cache/tessera; nullopt when neither variable is set.
std::optional<std::filesystem::path> cache_folder();

/// A folder of documents by keys. A key is a text of any length; all of it is compared.
class PlanCache {
 public:
  /// Without a folder nothing is found and nothing is kept. Names of files begin with `kind`.
  explicit PlanCache(std::optional<std::filesystem::path> folder, std::string kind = "plan")
      : folder_(std::move(folder)), kind_(std::move(kind)) {}

  /// The document that was kept under `key`; nullopt when there is none, or its file is damaged.
  std::optional<Document> find(const std::string& key) const;
  /// Keeps `document` instead of the one before. A folder that cannot be written keeps nothing.
  void keep(const std::string& key, const Document& document) const;
  /// The file of a key.
  ///   requires  a folder
  std::filesystem::path file(const std::string& key) const;

 private:
  std::optional<std::filesystem::path> folder_;
  std::string kind_;
};

}  // namespace tessera
