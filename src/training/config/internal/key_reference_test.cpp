// docs/configuration.md is made from the tables that read the keys. TESSERA_UPDATE_DOCS=1 writes
// it.
#include "training/config/internal/key_reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "base/files/file.h"

namespace tessera {
namespace {

TEST(KeyReference, HasAMeaningForEveryKeyThatIsRead) {
  std::set<std::string> read;
  for (const ReferenceKey& key : reference_keys()) {
    EXPECT_TRUE(read.insert(key.key.name).second) << key.key.name;
    const bool is_table = key.key.name.find('.') == std::string::npos && key.key.name != "parallel";
    EXPECT_EQ(key.key.meaning.empty(), is_table) << key.key.name;
    EXPECT_EQ(key.key.example.empty(), is_table) << key.key.name;
  }
}

TEST(KeyReference, KnowsWhichKindsReadAKey) {
  for (const ReferenceKey& key : reference_keys()) {
    if (key.key.name == "model.rope_base") {
      EXPECT_THAT(key.kinds, testing::ElementsAre("llama", "decoder", "encoder"));
    }
    if (key.key.name == "data.states") {
      EXPECT_THAT(key.kinds, testing::ElementsAre("markov"));
    }
    if (key.key.name == "train.steps") {
      EXPECT_THAT(key.kinds, testing::IsEmpty());
    }
  }
}

/// Settings in which the key may have its example.
Document settings_for(const ReferenceKey& reference) {
  const auto kind_for = [&](const std::string& table, const std::string& fallback) {
    return reference.key.name.starts_with(table + ".") && !reference.kinds.empty()
               ? reference.kinds.front()
               : fallback;
  };
  Document settings;
  settings["model"]["kind"] = kind_for("model", "gpt");
  const std::string kind = kind_for("data", "text");
  settings["data"]["kind"] = kind;
  if (reference.key.name == "data.images" || reference.key.name == "data.labels") {
    settings["data"]["images"] = "x";
    settings["data"]["labels"] = "y";
  } else if (kind == "text" || kind == "bin" || kind == "jsonl" || kind == "npy" ||
             kind == "cifar") {
    settings["data"]["path"] = "x";
  }
  if (reference.key.name == "train.gradient_precision") settings["train"]["precision"] = "bf16";
  if (reference.key.name == "optimizer.adam") settings["optimizer"]["kind"] = "muon";
  settings["train"]["evaluate_every"] = int64_t{10};
  return settings;
}

TEST(KeyReference, HasExamplesThatAreReadAndDifferFromTheDefaults) {
  for (const ReferenceKey& reference : reference_keys()) {
    const std::string& name = reference.key.name;
    SCOPED_TRACE(name);
    if (name == "model.file" || name == "model.text") continue;  // the reader wants a whole graph
    const Document example =
        *parse_toml("value = " + reference.key.example, "the example").find("value");
    const size_t point = name.find('.');
    Document settings = settings_for(reference);
    if (point == std::string::npos)
      settings[name] = example;
    else
      settings[name.substr(0, point)][name.substr(point + 1)] = example;
    EXPECT_NO_THROW(keys_of(settings));
    if (!name.ends_with(".kind")) {
      EXPECT_NE(to_json(example), reference.key.fallback);
    }
  }
}

class FileKeys : public testing::TestWithParam<FileReference> {};

TEST_P(FileKeys, HaveAMeaningForEveryKeyThatTheParserReads) {
  std::set<std::string> read, explained;
  for (const ReadKey& key : keys_of(GetParam())) read.insert(key.name);
  for (const KeyMeaning& key : GetParam().meanings)
    EXPECT_TRUE(explained.emplace(key.name).second) << key.name;
  EXPECT_EQ(read, explained);
}

/// The value of a key of the reference in an example; nullptr when it is absent. Of a list the last
/// item has it, of a word in capitals any key.
const Document* find_listed(const Document& document, std::string_view name) {
  const size_t point = name.find('.');
  std::string_view word = name.substr(0, point);
  const bool is_list = word.ends_with("[]");
  if (is_list) word.remove_suffix(2);
  const bool is_any = std::ranges::all_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
  if (!document.is_table()) return nullptr;
  for (const auto& [key, value] : document.as_table()) {
    if (!is_any && key != word) continue;
    const Document& inside = is_list ? value.as_list().back() : value;
    if (point == std::string_view::npos) return &inside;
    if (const Document* found = find_listed(inside, name.substr(point + 1))) return found;
  }
  return nullptr;
}

TEST_P(FileKeys, HaveExamplesThatAreReadHaveTheKeyAndDifferFromItsDefault) {
  const std::vector<ReadKey> keys = keys_of(GetParam());
  for (const KeyMeaning& meaning : GetParam().meanings) {
    SCOPED_TRACE(meaning.name);
    const Document example = GetParam().parse_example(meaning.example);
    EXPECT_NO_THROW(GetParam().keys_of(example));
    const Document* value = find_listed(example, meaning.name);
    ASSERT_NE(value, nullptr);
    const auto key = std::ranges::find(keys, meaning.name, &ReadKey::name);
    if (key != keys.end() && meaning.name != "format") {
      EXPECT_NE(to_json(*value), key->fallback);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(KeyReference, FileKeys, testing::ValuesIn(file_references()),
                         [](const auto& file) {
                           const std::string_view title = file.param.title;
                           return std::string(title.substr(0, title.find(' ')));
                         });

TEST(KeyReference, IsThePageOfTheDocumentation) {
  const std::string file = std::string(TESSERA_SOURCE_DIR) + "/docs/configuration.md";
  const std::string page = configuration_page();
  if (std::getenv("TESSERA_UPDATE_DOCS")) write_file(file, page);
  EXPECT_EQ(read_file(file), page) << "TESSERA_UPDATE_DOCS=1 writes it";
}

TEST(KeyReference, EachRowOfATableIsOneLine) {
  std::istringstream page(configuration_page());
  bool is_table = false;
  for (std::string line; std::getline(page, line); is_table = line.starts_with("|")) {
    EXPECT_FALSE(is_table && !line.empty() && !line.starts_with("|")) << line;
    EXPECT_EQ(line.starts_with("|"), line.ends_with("|")) << line;
  }
}

}  // namespace
}  // namespace tessera
