#include "tools/cli/internal/run/plan_cache.h"

#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/testing/test_folder.h"

namespace tessera {
namespace {

Document document(const std::string& text) {
  Document made;
  made["plan"] = text;
  return made;
}

TEST(PlanCache, FindsWhatItKeeps) {
  const TestFolder folder;
  const PlanCache cache(folder / "new");
  EXPECT_FALSE(cache.find("a"));
  cache.keep("a", document("first"));
  cache.keep("a", document("second"));
  ASSERT_TRUE(cache.find("a"));
  EXPECT_EQ(*cache.find("a"), document("second"));
  EXPECT_FALSE(cache.find("b"));
}

TEST(PlanCache, ADamagedEntryIsIgnoredAndReplaced) {
  const TestFolder folder;
  const PlanCache cache(folder.path());
  cache.keep("a", document("good"));
  const std::string whole = read_file(cache.file("a"));
  for (const std::string& damaged :
       {whole.substr(0, whole.size() / 2), std::string(), std::string("[1, 2]"), std::string("{}"),
        std::string("{\"key\": \"a\"}"), std::string("\0\xff", 2)}) {
    write_file(cache.file("a"), damaged);
    EXPECT_FALSE(cache.find("a")) << damaged;
  }
  cache.keep("a", document("good"));
  EXPECT_EQ(*cache.find("a"), document("good"));
}

TEST(PlanCache, AnEntryOfAnotherKeyIsNotFound) {
  const TestFolder folder;
  const PlanCache cache(folder.path());
  cache.keep("b", document("of b"));
  std::filesystem::copy_file(cache.file("b"), cache.file("a"));
  EXPECT_FALSE(cache.find("a"));
}

TEST(PlanCache, WithoutAFolderThatCanBeWrittenNothingIsKept) {
  const TestFolder folder;
  const std::filesystem::path file = folder / "file";
  write_file(file, "no folder");
  const PlanCache beside(file / "below"), none(std::nullopt);
  for (const PlanCache* cache : {&beside, &none}) {
    cache->keep("a", document("lost"));
    EXPECT_FALSE(cache->find("a"));
  }
}

}  // namespace
}  // namespace tessera
