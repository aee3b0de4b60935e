// docs/cli.md is made from the options of the commands. TESSERA_UPDATE_DOCS=1 writes it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/files/file.h"
#include "tools/cli/internal/command_line.h"

namespace tessera {
namespace {

std::string page_text(std::vector<std::string> words) {
  return std::get<std::string>(parse_command_line(std::move(words)));
}

std::string page() {
  std::string page =
      "# Command line\n\n"
      "What `tessera help` prints, and `tessera COMMAND --help` of every command. The keys of a\n"
      "configuration, which `--set` overrides, are in [configuration.md](configuration.md).\n\n"
      "```text\n" +
      page_text({"--help"}) + "```\n";
  for (const CommandEntry& command : commands())
    page += "\n## " + std::string(command.name) + "\n\n```text\n" +
            page_text({command.name, "--help"}) + "```\n";
  return page;
}

TEST(CliPage, IsWhatTheCommandsSay) {
  setenv("COLUMNS", "100", 1);  // the page does not depend on a terminal
  const std::string file = std::string(TESSERA_SOURCE_DIR) + "/docs/cli.md";
  if (std::getenv("TESSERA_UPDATE_DOCS")) write_file(file, page());
  EXPECT_EQ(read_file(file), page()) << "run this test with TESSERA_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace tessera
