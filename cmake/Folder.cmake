# One folder of src/ = one library, its tests, its benchmarks, its fuzz targets.
#
#   tessera_folder(NAME engine USES kvcache model PACKAGES spdlog::spdlog)
#
# HOT: so much computing that its tests need an optimiser even under a sanitizer; other folders are compiled faster than the
# optimiser would make them run.
# SERIAL: its tests measure time, each of them runs alone.
#
# *.cpp               the library tessera_<name>
# *_test.cpp          one executable <name>_test, registered with ctest under the label "unit"
# *_bench.cpp         one executable <name>_bench (TESSERA_BENCH)
# *_fuzz.cpp          one libFuzzer executable each (TESSERA_FUZZ)
add_custom_target(unit_tests)  # every folder's tests
add_custom_target(fuzzers)     # every fuzz target

# What is under test is compiled as it ships or with every check; the tests themselves, half of all code and the slow half to
# compile, are not worth optimising; the sanitizers' compiler need not judge their style nor their own undefined behaviour.
add_library(tessera_test_settings INTERFACE)
target_link_libraries(tessera_test_settings INTERFACE tessera_warnings GTest::gmock GTest::gtest_main)
target_compile_definitions(tessera_test_settings INTERFACE TESSERA_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
if(TESSERA_SANITIZE)
  target_compile_options(tessera_test_settings INTERFACE -w -fno-sanitize=undefined)
  # Tests that count allocations bring an operator new, which the thread sanitizer has too; its own stays.
  target_link_options(tessera_test_settings INTERFACE -Wl,--allow-multiple-definition)
else()
  target_compile_options(tessera_test_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
endif()
if(TESSERA_FUZZ)
  target_compile_options(tessera_test_settings INTERFACE -fno-sanitize=fuzzer-no-link)
endif()

function(tessera_folder)
  cmake_parse_arguments(F "HOT;SERIAL" "NAME" "USES;PACKAGES;TEST_PACKAGES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  file(GLOB headers CONFIGURE_DEPENDS *.h)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  set(benches ${sources})
  list(FILTER benches INCLUDE REGEX "_bench\\.cpp$")
  set(fuzzers ${sources})
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cpp$")

  set(uses)
  foreach(use ${F_USES})
    list(APPEND uses tessera_${use})
  endforeach()
  if(sources)
    add_library(tessera_${F_NAME} STATIC ${sources} ${headers})
    target_include_directories(tessera_${F_NAME} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(tessera_${F_NAME} PUBLIC ${uses} ${F_PACKAGES} Threads::Threads PRIVATE tessera_warnings)
    if(TESSERA_SANITIZE AND F_HOT)
      target_compile_options(tessera_${F_NAME} PRIVATE -O1)
    endif()
  else()
    add_library(tessera_${F_NAME} INTERFACE)
    target_include_directories(tessera_${F_NAME} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(tessera_${F_NAME} INTERFACE ${uses} ${F_PACKAGES} Threads::Threads)
  endif()

  if(TESSERA_TESTS AND tests)
    add_executable(${F_NAME}_test ${tests})
    target_link_libraries(${F_NAME}_test PRIVATE tessera_${F_NAME} ${F_TEST_PACKAGES} tessera_test_settings)
    add_dependencies(unit_tests ${F_NAME}_test)
    gtest_discover_tests(${F_NAME}_test DISCOVERY_TIMEOUT 120 PROPERTIES LABELS unit TIMEOUT 600 RUN_SERIAL ${F_SERIAL})
  endif()
  if(TESSERA_BENCH AND benches)
    add_executable(${F_NAME}_bench ${benches})
    target_link_libraries(${F_NAME}_bench PRIVATE tessera_${F_NAME} tessera_warnings benchmark::benchmark_main)
    target_compile_definitions(${F_NAME}_bench PRIVATE TESSERA_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  endif()
  if(TESSERA_FUZZ)
    foreach(fuzzer ${fuzzers})
      get_filename_component(stem ${fuzzer} NAME_WE)
      add_executable(${stem} ${fuzzer})
      target_link_libraries(${stem} PRIVATE tessera_${F_NAME} tessera_warnings -fsanitize=fuzzer)
      add_dependencies(fuzzers ${stem})
    endforeach()
  endif()
endfunction()
