#include "stack/git/merge3.h"

#include "base/check.h"
#include "stack/git/libgit2.h"

namespace tessera::stack {

MergedText merge_texts(std::string_view base, std::string_view ours, std::string_view theirs) {
  const GitLibrary library;
  const auto input = [](std::string_view text) {
    git_merge_file_input file;
    git_merge_file_input_init(&file, GIT_MERGE_FILE_INPUT_VERSION);
    file.ptr = text.data();
    file.size = text.size();
    return file;
  };
  const git_merge_file_input one = input(base);
  const git_merge_file_input two = input(ours);
  const git_merge_file_input three = input(theirs);
  git_merge_file_options options;
  git_merge_file_options_init(&options, GIT_MERGE_FILE_OPTIONS_VERSION);
  options.ancestor_label = "base";
  options.our_label = "target";
  options.their_label = "topic";
  options.flags = GIT_MERGE_FILE_STYLE_DIFF3;
  git_merge_file_result result;
  const int status = git_merge_file(&result, &one, &two, &three, &options);
  TS_CHECK(status == 0, status);
  MergedText merged{std::string(result.ptr == nullptr ? "" : result.ptr, result.len),
                    result.automergeable == 1};
  git_merge_file_result_free(&result);
  return merged;
}

}  // namespace tessera::stack
