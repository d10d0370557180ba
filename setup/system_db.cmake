# cmake -P system_db.cmake code|sources FATUNE OUT TEXT... -- makes the system database OUT of the texts in db/tuned,
# with what `fatune import --code` makes, or --sources. The file OUT.code or OUT.sources says which of them was last.
#
# FATUNE makes it beside and it takes the place of the last one whole: who has that open keeps it. A text with a line
# that is refused ends the build with that line.
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE 3 ${last})
  list(APPEND arguments "${CMAKE_ARGV${i}}")
endforeach()
list(POP_FRONT arguments what fatune out)
get_filename_component(folder "${out}" DIRECTORY)
file(MAKE_DIRECTORY "${folder}")
file(REMOVE "${out}.new" "${out}.new-journal" "${out}.code" "${out}.sources")
set(ENV{FATUNE_SYSTEM_DB} "${out}")
set(ENV{FATUNE_TEMPLATES} "")
execute_process(COMMAND "${fatune}" import --${what} --quiet --db "${out}.new" ${arguments} RESULT_VARIABLE code
                OUTPUT_VARIABLE said ERROR_VARIABLE errors)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "the system database cannot be made: ${said}${errors}")
endif()
file(RENAME "${out}.new" "${out}")
file(TOUCH "${out}.${what}")
string(REGEX REPLACE "\n$" "" said "${said}")
message("system database: ${said}")
