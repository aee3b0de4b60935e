#include "training/checkpoint/truncate_list.h"

namespace tessera {

std::vector<std::string> truncate_list(std::vector<std::string> texts, size_t count) {
  if (texts.size() <= count + 1) return texts;  // the last one is as short as "and 1 more"
  const size_t more = texts.size() - count;
  texts.resize(count);
  texts.push_back("and " + std::to_string(more) + " more");
  return texts;
}

}  // namespace tessera
