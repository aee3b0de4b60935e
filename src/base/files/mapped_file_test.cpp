#include "base/files/mapped_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/file.h"
#include "base/testing/test_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

TEST(MappedFile, HasTheBytesOfTheFile) {
  const TestFolder folder;
  const fs::path path = folder / "file";
  for (const std::string& text :
       {std::string(), std::string("a\0b\n", 4), std::string(9000, 'x')}) {
    write_file(path, text);
    MappedFile mapped(path);
    EXPECT_EQ(mapped.bytes(), text);
    const MappedFile moved(std::move(mapped));
    EXPECT_EQ(moved.bytes(), text);
  }
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const TestFolder folder;
  EXPECT_THROW(MappedFile(folder / "absent"), UserError);
  EXPECT_THROW(MappedFile(folder.path()), UserError);
}

}  // namespace
}  // namespace tessera
