// A short run of the fuzz targets without coverage: every file of the corpora, and files that
// differ from them in a few places. `./dev fuzz-files` searches for long.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "readers.h"

namespace tessera {
namespace {

constexpr int kMutantsOfReader = 400;

std::vector<std::string> corpus_of(std::string_view reader) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TESSERA_CORPUS_FOLDER) / reader))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> files;
  for (const std::filesystem::path& path : paths) files.push_back(read_file(path));
  return files;
}

/// Between one and eight changes: bytes set, removed, repeated, inserted, or the end cut off.
std::string mutant_of(std::string text, std::mt19937& random) {
  const auto below = [&](size_t bound) { return random() % std::max<size_t>(bound, 1); };
  for (size_t changes = 1 + below(8); changes > 0; --changes) {
    const size_t at = below(text.size()), length = std::min(text.size() - at, 1 + below(16));
    switch (below(6)) {
      case 0:
        if (!text.empty()) text[at] = static_cast<char>(random());
        break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, text.substr(at, length)); break;
      case 3: text.insert(at, 1, "\0{}[]\"-9e.,\\\xff"[below(14)]); break;
      case 4: text.insert(at, std::string(1 + below(300), "[{9-"[below(4)])); break;
      default: text.resize(at);
    }
  }
  return text;
}

std::span<const std::byte> corpus_bytes_of(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

class Files : public testing::TestWithParam<Reader> {};

TEST_P(Files, OfTheCorpusAreReadOrRefused) {
  const std::vector<std::string> corpus = corpus_of(GetParam().name);
  ASSERT_FALSE(corpus.empty());
  for (const std::string& text : corpus)
    EXPECT_NO_THROW(read_anything(GetParam(), corpus_bytes_of(text))) << text.substr(0, 2000);
}

TEST_P(Files, OneOfTheCorpusIsRead) {
  const std::vector<std::string> corpus = corpus_of(GetParam().name);
  EXPECT_TRUE(std::any_of(corpus.begin(), corpus.end(), [&](const std::string& text) {
    try {
      GetParam().read(corpus_bytes_of(text));
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }));
}

TEST_P(Files, LikeThoseOfTheCorpusAreReadOrRefused) {
  const std::vector<std::string> corpus = corpus_of(GetParam().name);
  std::mt19937 random(20261123);
  for (int i = 0; i < kMutantsOfReader; ++i) {
    const std::string text = mutant_of(corpus[random() % corpus.size()], random);
    ASSERT_NO_THROW(read_anything(GetParam(), corpus_bytes_of(text))) << "mutant " << i << ":\n"
                                                                      << text.substr(0, 2000);
  }
}

INSTANTIATE_TEST_SUITE_P(Readers, Files, testing::ValuesIn(readers().begin(), readers().end()),
                         [](const auto& reader) { return std::string(reader.param.name); });

}  // namespace
}  // namespace tessera
