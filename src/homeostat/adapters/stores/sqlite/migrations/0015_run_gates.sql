-- Gates of runs are asked once for a whole save, and not once more for each turn in it; and not only whether a turn may
-- be made but whether it may begin: a turn that stood in line when its run was killed is entered by nobody.

DROP TRIGGER turns_of_runs;
