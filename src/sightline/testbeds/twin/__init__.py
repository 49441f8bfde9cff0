"""What simulated plants share: attacks, twins, truth, folders.

A plant is run twice from the first step of each attack, with and without it, in the
same state and with the same random numbers. What differs is the attack's true effect.

================  ===================================================================
`scenario`        attacks, their tables as CSV and TOML, what a plant can be asked, and
                  what a forged sensor reads
`simulation`      train, test and twins of any plant that can be copied; random numbers
                  that depend on the seed and the step alone; effects of attacks and
                  recovery from them, known from twins
`folder_writer`   a run as files, with a picture
================  ===================================================================
"""
