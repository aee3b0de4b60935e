#include "base/mapped_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

TEST(MappedFile, HasTheBytesOfTheFile) {
  const fs::path path = fs::path(testing::TempDir()) / "tessera_mapped_file";
  for (const std::string& text :
       {std::string(), std::string("a\0b\n", 4), std::string(9000, 'x')}) {
    write_file(path, text);
    MappedFile mapped(path);
    EXPECT_EQ(mapped.bytes(), text);
    const MappedFile moved(std::move(mapped));
    EXPECT_EQ(moved.bytes(), text);
  }
  fs::remove(path);
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  EXPECT_THROW(MappedFile(fs::path(testing::TempDir()) / "tessera_no_such_file"), UserError);
  EXPECT_THROW(MappedFile(fs::path(testing::TempDir())), UserError);
}

}  // namespace
}  // namespace tessera
