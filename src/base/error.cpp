#include "base/error.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/text/printable.h"

namespace tessera {

UserError::UserError(std::string what, std::string why, std::string fix, ExitCode code)
    : std::runtime_error(printable(what + "\n  why: " + why + "\n  fix: " + fix)),
      what_(std::move(what)),
      why_(std::move(why)),
      fix_(std::move(fix)),
      code_(code) {}

void refuse_config(std::string what, std::string why, std::string fix) {
  throw UserError(std::move(what), std::move(why), std::move(fix), ExitCode::kBadConfig);
}

void refuse_data(std::string what, std::string why, std::string fix) {
  throw UserError(std::move(what), std::move(why), std::move(fix), ExitCode::kBadData);
}

namespace {

char lower(char letter) {
  return 'A' <= letter && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const int replace = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace tessera
