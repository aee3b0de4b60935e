// docs/configuration.md is made from the tables that read the keys. TESSERA_UPDATE_DOCS=1 writes
// it.
#include "config/key_reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/file.h"

namespace tessera {
namespace {

TEST(KeyReference, HasAMeaningForEveryKeyThatIsRead) {
  std::set<std::string> read, explained;
  for (const ReferenceKey& key : reference_keys())
    EXPECT_TRUE(read.insert(key.key.name).second) << key.key.name;
  for (const KeyMeaning& key : key_meanings())
    EXPECT_TRUE(explained.emplace(key.name).second) << key.name;
  EXPECT_EQ(read, explained);
}

TEST(KeyReference, KnowsWhichKindsReadAKey) {
  for (const ReferenceKey& key : reference_keys()) {
    if (key.key.name == "model.rope_base") {
      EXPECT_THAT(key.kinds, testing::ElementsAre("llama"));
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
  } else if (kind == "text" || kind == "jsonl" || kind == "npy" || kind == "cifar") {
    settings["data"]["path"] = "x";
  }
  settings["train"]["evaluate_every"] = int64_t{10};
  return settings;
}

TEST(KeyReference, HasExamplesThatAreReadAndDifferFromTheDefaults) {
  for (const ReferenceKey& reference : reference_keys()) {
    const std::string& name = reference.key.name;
    SCOPED_TRACE(name);
    const std::span<const KeyMeaning> meanings = key_meanings();
    const auto meaning = std::ranges::find(meanings, name, &KeyMeaning::name);
    ASSERT_NE(meaning, meanings.end());
    const Document example =
        *parse_toml("value = " + std::string(meaning->example), "the example").find("value");
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

TEST(KeyReference, IsThePageOfTheDocumentation) {
  const std::string file = std::string(TESSERA_SOURCE_DIR) + "/docs/configuration.md";
  const std::string page = configuration_page();
  if (std::getenv("TESSERA_UPDATE_DOCS")) write_file(file, page);
  EXPECT_EQ(read_file(file), page) << "TESSERA_UPDATE_DOCS=1 writes it";
}

}  // namespace
}  // namespace tessera
