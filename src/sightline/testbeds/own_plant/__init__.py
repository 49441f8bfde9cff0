"""Your own plant: a folder with exports of its historian.

===========  ========================================================================
`folder`     the files of the folder: tables, attacks, tags, settings
`tables`     one table: its columns and its time stamps
`exports`    wide and long tables as rows in even steps of time
===========  ========================================================================
"""
